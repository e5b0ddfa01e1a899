"""Values for later sessions are appended to a file of pytest's cache, and those that count are read."""

import shutil
import warnings

import pytest

from pytest_ipperf.plugin.session.forecast.cache_file import CacheFile


@pytest.fixture
def config(pytester):
    return pytester.parseconfigure()


@pytest.fixture
def path(config):
    return config.cache.mkdir("ipperf") / "figures"


@pytest.fixture
def file(config):
    return CacheFile(config, "figures", 2)


def test_values_are_read_by_key_in_the_order_of_their_sessions(config, file):
    file.append("a", "1", {"x": 0.5})
    file.append("b\t\n", "1", [None])
    file.append("a", "2", "é\t")
    assert CacheFile(config, "figures", 2).read() == {"a": [{"x": 0.5}, "é\t"], "b\t\n": [[None]]}
    assert file.read({"b\t\n", "c"}) == {"b\t\n": [[None]]}
    assert file.read(()) == {}


def test_a_later_value_of_a_session_replaces_the_earlier_one_and_the_last_sessions_count(file):
    for session, value in (("1", 1), ("2", 2), ("3", 3), ("2", 4)):
        file.append("a", session, value)
    assert file.read() == {"a": [3, 4]}


def test_there_is_nothing_before_the_first_value(file, path):
    assert file.read() == {}
    file.compact()
    assert not path.exists()


def test_a_line_that_a_killed_session_did_not_complete_costs_no_other(file, path):
    file.append("a", "1", 12.34)
    whole = path.read_text()
    for end in range(len(whole)):
        path.write_text(whole[:end])
        file.append("b", "1", 2)
        assert file.read() == {"b": [2]}


@pytest.mark.parametrize(
    "content", [b"\xff\xfe\n\n", b"\n".join([b"1\t2", b"{\t\t1", b"1\t1\t1\t1", b"\t"]), b"\0" * 5000]
)
def test_what_is_no_line_is_passed_over(content, file, path):
    path.write_bytes(content)
    file.append("a", "1", 1)
    assert file.read() == {"a": [1]}


def test_it_is_compacted_once_less_than_half_of_it_counts(file, path):
    for number in range(4):
        file.append("a", str(number), number)
    before = path.read_bytes()
    file.compact()
    assert path.read_bytes() == before
    file.append("a", "4", 4)
    file.compact()
    assert path.read_text().count("\n") == 2
    assert file.read() == {"a": [3, 4]}
    file.append("a", "5", 5)
    assert file.read() == {"a": [4, 5]}


def test_a_session_that_has_added_nothing_compacts_nothing(config, file, path):
    for number in range(9):
        file.append("a", str(number), number)
    before = path.read_bytes()
    CacheFile(config, "figures", 2).compact()
    assert path.read_bytes() == before


def test_values_that_cannot_be_decoded_are_none(file, path):
    path.write_text('\n"a"\t"1"\t{\t')
    assert file.read() == {}


def test_a_cache_that_another_session_clears_is_made_again(file, path):
    file.append("a", "1", 1)
    shutil.rmtree(path.parent.parent)
    assert file.read() == {}
    file.append("a", "1", 2)
    assert file.read() == {"a": [2]}


def test_without_pytests_cache_nothing_is_kept(pytester):
    file = CacheFile(pytester.parseconfigure("-p", "no:cacheprovider"), "figures", 2)
    file.append("a", "1", 1)
    file.compact()
    assert file.read() == {}
    assert list(pytester.path.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_warned_of_once_and_breaks_nothing(config, file, path):
    path.mkdir()
    with pytest.warns(pytest.PytestCacheWarning, match="pytest-ipperf cannot write figures in pytest's cache: "):
        file.append("a", "1", 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CacheFile(config, "figures", 2).append("a", "1", 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        file.append("a", "2", 1)
        file.compact()
    assert file.read() == {}
