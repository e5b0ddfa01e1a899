import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.registry import Registry


@pytest.fixture
def things(tmp_path, monkeypatch):
    """A registry of a package with two things and their `base`; importing `broken` would fail."""
    folder = tmp_path / "shelf_of_things"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "base.py").write_text("thing = 'what they share'\n")
    (folder / "ball.py").write_text("thing = 'round'\n")
    (folder / "broken.py").write_text("raise RuntimeError('imported too early')\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield Registry[str]("shelf_of_things", [str(folder)], "thing")
    for name in [name for name in sys.modules if name.startswith("shelf_of_things")]:
        del sys.modules[name]


def test_each_module_is_one_thing_and_base_is_none(things):
    assert list(things) == ["ball", "broken"]
    assert len(things) == 2
    assert "ball" in things
    assert "base" not in things
    assert 3 not in things


def test_a_thing_is_imported_when_asked_for(things):
    assert things["ball"] == "round"
    assert "shelf_of_things.broken" not in sys.modules
    with pytest.raises(RuntimeError, match="imported too early"):
        things["broken"]


def test_a_new_file_is_a_new_thing(things, tmp_path):
    folder = tmp_path / "shelf_of_things"
    (folder / "cube.py").write_text("thing = 'square'\n")
    assert Registry[str]("shelf_of_things", [str(folder)], "thing")["cube"] == "square"


def test_what_is_not_there_is_answered_with_what_is(things):
    with pytest.raises(UsageError, match=r"^no thing 'cube'; there are: ball, broken$"):
        things["cube"]
    with pytest.raises(UsageError, match=r"^no thing 'base'; there are: ball, broken$"):
        things["base"]


@given(st.sets(st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True), max_size=6))
def test_names_round_trip_through_their_files(tmp_path_factory, names):
    folder = tmp_path_factory.mktemp("registry")
    for name in names:
        (folder / f"{name}.py").touch()
    registry = Registry[object]("shelf", [str(folder)], "thing")
    assert list(registry) == sorted(names - {"base"})
    assert all(name in registry for name in registry)
