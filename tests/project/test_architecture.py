"""The rules of the house that no single room can check."""

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from fnmatch import fnmatch
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from pytest_ipperf.lab.agents.code_archive import TRAVELS, code_archive
from tests.support.shadowing import shadowed

TOP = Path(__file__).parents[2]
PACKAGE = TOP / "pytest_ipperf"
MODULES = sorted(PACKAGE.rglob("*.py"))

FOLDERS = {"benchmarks", "docs", "pytest_ipperf", "suites", "tests"}
FILES = {"CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md", "conftest.py", "hosts.ini"} | {
    "pyproject.toml",
    "requirements.lock",
    "requirements.lowest",
}


def oldest_python():
    """Python 3.10 where there is one, as hosts may have no newer; else the one that runs the tests."""
    for candidate in ("python3.10", *map(str, Path.home().glob(".pyenv/versions/3.10*/bin/python"))):
        found = shutil.which(candidate)
        # It must run: the shim of a version manager may stand there without its Python.
        if found and subprocess.run([found, "-V"], capture_output=True, check=False).returncode == 0:
            return found
    return sys.executable


def test_import_contracts_hold():
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [sys.executable, linter, "--no-logo", "--no-cache"], cwd=TOP, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_contract_and_cargo_agree_on_what_travels():
    contracts = tomllib.loads((TOP / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (sources,) = (contract["source_modules"] for contract in contracts if "travels" in contract["name"])
    rooms = [entry.removesuffix(".py").replace("/", ".") for entry in TRAVELS if not entry.endswith("__init__.py")]
    assert sorted(sources) == sorted(f"pytest_ipperf.{room}" for room in rooms)


def test_what_travels_needs_only_the_standard_library(tmp_path):
    packed = tmp_path / "cargo.zip"
    packed.write_bytes(code_archive())
    with zipfile.ZipFile(packed) as archive:
        names = [re.sub(r"(/__init__)?\.py$", "", name).replace("/", ".") for name in archive.namelist()]
    assert "pytest_ipperf.core.portable.errors" in names
    code = "import importlib, sys; sys.path.insert(0, sys.argv[1]); [importlib.import_module(n) for n in sys.argv[2:]]"
    done = subprocess.run(
        [oldest_python(), "-I", "-S", "-W", "error", "-c", code, packed, *names],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_modules_are_small_and_named_for_what_they_do():
    lines = {path.relative_to(TOP).as_posix(): len(path.read_text().splitlines()) for path in MODULES}
    assert lines
    assert not {name: count for name, count in lines.items() if count > 400}
    assert not [name for name in lines if {"utils", "common", "helpers"} & set(Path(name).with_suffix("").parts)]


def test_no_folder_is_a_heap():
    # A registry may hold more, as its files are equal things; that is told by the `base.py` that they share.
    folders = [PACKAGE, *(path for path in PACKAGE.rglob("*") if path.is_dir() and path.name != "__pycache__")]
    entries = {
        folder.relative_to(TOP).as_posix(): [
            each.name for each in folder.iterdir() if each.name not in {"__init__.py", "__pycache__", "py.typed"}
        ]
        for folder in folders
    }
    assert len(entries) > 40
    rooms = entries.pop("pytest_ipperf")  # a list that is fixed, and that the contract on layers names
    assert len(rooms) <= 14
    assert not {name: len(names) for name, names in entries.items() if len(names) > 13 and "base.py" not in names}


@pytest.mark.parametrize("name", ["requirements.lock", "requirements.lowest"])
def test_lock_names_no_download_host(name):
    assert not re.findall(r"\S*://\S*|^-.*", (TOP / name).read_text(), re.MULTILINE)


def test_the_lowest_versions_that_are_tried_are_those_that_are_allowed():
    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    asked = map(Requirement, [*project["dependencies"], *extras["library"], *extras["allure"], *extras["xdist"]])
    floors = {each.name: str(s.version) for each in asked for s in each.specifier if s.operator == ">="}
    tried = dict(re.findall(r"^([a-z][\w-]*)==(\S+) ", (TOP / "requirements.lowest").read_text(), re.MULTILINE))
    assert set(floors) <= set(tried)
    assert {name: Version(tried[name]) for name in floors} == {name: Version(floors[name]) for name in floors}
    # The tests' own extra asks for no more of what users have.
    tests = {each.name: each.specifier for each in map(Requirement, extras["test"])}
    assert {name: str(tests[name]) for name in tests if name in floors} == {
        name: f">={floors[name]}" for name in tests if name in floors
    }


def test_top_level_holds_only_what_was_agreed():
    ignored = [line.rstrip("/") for line in (TOP / ".gitignore").read_text().split()]
    names = {path.name for path in TOP.iterdir() if not path.name.startswith(".")}
    assert {name for name in names if not any(fnmatch(name, rule) for rule in ignored)} <= FOLDERS | FILES


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("first = [row for row in rows]; return [row(each) for each in rows]", id="beside"),
        pytest.param("return [row(each) for each in [row for row in rows]]", id="within"),
        pytest.param("return [[row for row in rows] for each in rows if row(each)]", id="nested"),
        pytest.param("return [row for row in rows] + [*{row(each) for each in rows}]", id="set"),
        pytest.param("return {row: 0 for row in rows} or {each: row(each) for each in rows}", id="dict"),
        pytest.param("return [lambda: row for row in rows], [row(each) for each in rows]", id="closed over"),
        pytest.param("first = [row for row in rows]; return row(first)", id="plain"),
    ],
)
def test_a_comprehension_that_hides_a_name_from_outside_is_found(body):
    assert shadowed(f"def f(rows):\n    {body}\n") == [(1, "row")]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("row = len; first = [row for row in rows]; return [row(each) for each in rows]", id="own"),
        pytest.param("return [rows for rows in rows]", id="argument"),
        pytest.param("return [[row + each for each in rows] for row in rows]", id="of the comprehension around"),
        pytest.param("return any(row for row in rows) or [row(each) for each in rows]", id="not inlined"),
        pytest.param("return [row for row in rows], lambda: row(rows)", id="another function"),
        pytest.param("import row; return [row for row in rows], row.tell(rows)", id="imported"),
    ],
)
def test_comprehensions_that_python_3_12_compiles_rightly_are_left_alone(body):
    assert shadowed(f"def f(rows):\n    {body}\n") == []


def test_no_comprehension_hides_a_name_that_its_function_reads():
    folders = (PACKAGE, TOP / "suites", TOP / "benchmarks", TOP / "tests")
    modules = [path for folder in folders for path in folder.rglob("*.py")]
    assert len(modules) > 300
    found = {path.relative_to(TOP).as_posix(): shadowed(path.read_text(encoding="utf-8")) for path in modules}
    assert not {name: hits for name, hits in found.items() if hits}


def test_settings_of_pytest_are_in_the_table_that_pytest_8_reads_too():
    texts = [*(TOP / "tests").rglob("*.py"), *(TOP / "docs").rglob("*.md"), TOP / "README.md", TOP / "pyproject.toml"]
    table = re.compile(r"[\s\"']\[tool\.pytest\](\\n|\n)")
    assert not [str(path) for path in texts if table.search(path.read_text(encoding="utf-8"))]
