"""`init` creates a project that can measure at once, from a checkout and from a wheel, and overwrites nothing."""

from __future__ import annotations

import importlib.util
import re
import resource
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from pytest_ipperf import cli

TOP = Path(__file__).parents[3]
PROGRAM = [sys.executable, "-c", "import sys; from pytest_ipperf.cli import main; sys.exit(main())"]
NOTHING_DECIDED = 10
RECIPES = {
    "github": {".github/workflows/night.yml", ".github/workflows/change.yml"},
    "gitlab": {".gitlab-ci.yml"},
    "jenkins": {"Jenkinsfile", "Jenkinsfile.change"},
    "none": set[str](),
}


def tree(folder):
    """Return the files below a folder, with their texts."""
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.fixture
def init(tmp_path, monkeypatch, capsys):
    """Run the command in an empty directory: status, output, standard error."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        status = cli.main(["init", *arguments])
        return status, *capsys.readouterr()

    return run


@pytest.mark.parametrize("service", RECIPES)
def test_it_lays_the_repositorys_own_files_and_the_recipe_of_the_page(init, tmp_path, service):
    status, out, _ = init("--ci", service)
    laid = tree(tmp_path)
    suites = {f"suites/{name}": text for name, text in tree(TOP / "suites").items()}
    assert suites
    assert status == 0
    assert set(laid) == {*suites, "hosts.ini", "pytest.ini", "requirements.txt", ".gitignore"} | RECIPES[service]
    assert {name: laid[name] for name in suites} == suites
    assert laid["hosts.ini"] == (TOP / "hosts.ini").read_text(encoding="utf-8")
    page = (TOP / "docs" / "ci.md").read_text(encoding="utf-8")
    for name in RECIPES[service]:
        assert f"\n{laid[name]}```\n" in page
        assert re.search(rf"^`{re.escape(name)}`", page, re.MULTILINE)
    assert set(laid) <= set(out.split())
    assert "\n  pytest -m smtp --ipver=6 " in out


def test_the_directory_is_made_and_the_next_command_says_to_go_there(init, tmp_path):
    status, out, _ = init("a new/one", "--ci=none")
    assert status == 0
    assert tree(tmp_path / "a new" / "one")
    assert "Next, after cd 'a new/one':" in out


def test_what_is_in_the_way_is_named_and_nothing_is_written(init, tmp_path):
    (tmp_path / "hosts.ini").write_text("mine")
    (tmp_path / ".gitignore").symlink_to("nowhere")
    (tmp_path / "suites").write_text("a file")
    status, out, said = init("--ci=none")
    assert (status, out) == (4, "")
    blocked = ", ".join([*(f"suites/{name}" for name in sorted(tree(TOP / "suites"))), "hosts.ini", ".gitignore"])
    assert f"{tmp_path} already has {blocked}; nothing was written" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == [".gitignore", "hosts.ini", "suites"]
    assert (tmp_path / "hosts.ini").read_text() == "mine"


@pytest.mark.parametrize("name", ["pyproject.toml", "tox.ini", "setup.cfg"])
def test_settings_of_pytest_elsewhere_are_in_the_way(init, tmp_path, name):
    (tmp_path / name).touch()
    status, _, said = init()
    assert status == 4
    assert f"already has {name};" in said
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_second_time_changes_nothing(init, tmp_path):
    assert init()[0] == 0
    before = tree(tmp_path)
    status, _, said = init()
    assert status == 4
    assert all(name in said for name in before)
    assert tree(tmp_path) == before


def test_a_file_in_place_of_the_directory_is_named(init, tmp_path):
    (tmp_path / "here").touch()
    assert init("here") == (4, "", "pytest-ipperf: here is a file; name a directory\n")


def test_a_write_that_fails_leaves_nothing_behind(tmp_path):
    made = tmp_path / "new"
    done = subprocess.run(
        [*PROGRAM, "init", "new"], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(TOP), "PYTHONDONTWRITEBYTECODE": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1600, 1600)),
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "cannot be read or written (File too large)" in done.stderr
    assert not made.exists()


def test_an_unknown_service_is_a_usage_error(init, tmp_path):
    status, _, said = init("--ci=travis")
    assert status == 4
    assert "'travis'" in said
    assert not list(tmp_path.iterdir())


def test_pages_are_listed_and_printed_by_each_of_their_names(capsys):
    assert cli.main(["docs"]) == 0
    listed = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    howto = {f"howto/{path.stem}" for path in (TOP / "docs" / "howto").glob("*.md")}
    assert set(listed) == {path.stem for path in (TOP / "docs").glob("*.md")} | howto
    assert len(howto) >= 3
    assert listed["exit-status"] == "Exit status"
    for name in ("exit-status", "exit-status.md", "docs/exit-status.md"):
        assert cli.main(["docs", name]) == 0
        assert capsys.readouterr().out == (TOP / "docs" / "exit-status.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["nowhere", "../README", "decisions/0001-floors"])
def test_a_page_that_does_not_exist_is_a_usage_error(capsys, name):
    assert cli.main(["docs", name]) == 4
    assert f"page {name!r} does not exist; there are allure, " in capsys.readouterr().err


# --- the wheel --------------------------------------------------------------------------------------------------------


def hatchling(root, target, folder):
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)],
        cwd=root, check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    (built,) = folder.glob("*.whl" if target == "wheel" else "*.tar.gz")
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel built from the source distribution, as packagers build it."""
    if not importlib.util.find_spec("hatchling"):
        pytest.skip("hatchling is not installed")
    folder = tmp_path_factory.mktemp("wheel")
    with tarfile.open(hatchling(TOP, "sdist", folder)) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # from Python 3.11.4 on
        archive.extractall(folder)
    (root,) = (each for each in folder.iterdir() if each.is_dir())
    return hatchling(root, "wheel", folder)


def test_the_wheel_holds_what_init_lays_and_no_link_that_leads_nowhere(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        described = Parser().parsestr(archive.read(metadata).decode())
        shipped = {name for name in names if "/starter/" in name}
        texts = {name.partition("/starter/")[2]: archive.read(name).decode() for name in shipped}
    suites = {f"suites/{name}": text for name, text in tree(TOP / "suites").items()}
    printed = [*(TOP / "docs").glob("*.md"), *(TOP / "docs" / "howto").glob("*.md")]
    pages = {path.relative_to(TOP).as_posix(): path.read_text(encoding="utf-8") for path in printed}
    assert texts == {**suites, **pages, "hosts.ini": (TOP / "hosts.ini").read_text(encoding="utf-8")}
    assert described["Description-Content-Type"] == "text/markdown"
    readme = described.get_payload()
    assert isinstance(readme, str)
    assert readme.startswith("# pytest-ipperf\n")
    assert re.findall(r"\[[^\]]+\]\((?!https://)[^)]*\)", readme) == []
    assert "docs/exit-status.md" in readme


def test_from_an_installed_wheel_a_project_is_laid_and_measured(wheel, tmp_path):
    home, project = tmp_path / "home", tmp_path / "project"
    project.mkdir()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True, timeout=300)
    python = home / "bin" / "python"
    (packages,) = home.glob("lib/python*/site-packages")
    # Other packages come from here. .pth files in a folder named by a .pth file are not read, so not the checkout's.
    (packages / "others.pth").write_text(f"{Path(pytest.__file__).parents[1]}\n")
    pip = [sys.executable, "-m", "pip", f"--python={python}", "install", "--quiet", "--no-index", "--no-deps"]
    pip += ["--ignore-installed", "--disable-pip-version-check", "--no-compile"]
    subprocess.run([*pip, str(wheel)], check=True, timeout=300)

    def run(*command):
        return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False, timeout=300)

    where = run(python, "-c", "import pytest_ipperf; print(pytest_ipperf.__file__)")
    assert Path(where.stdout).is_relative_to(packages), where.stderr
    laid = run(home / "bin" / "pytest-ipperf", "init")
    assert laid.returncode == 0, laid.stderr
    assert (project / "suites" / "router" / "test_router.py").is_file()
    argv = ["-m", "smtp", "--ipver=6", "--design=smoke", "--connections=1", "--testbed=loopback", "-p", "no:randomly"]
    done = run(python, "-m", "pytest", *argv, "--ipperf-server=embedded")
    assert done.returncode == NOTHING_DECIDED, done.stdout + done.stderr
    assert "\nSMTP response time" in done.stdout
    assert "1 unjudged" in done.stdout
    assert list((project / ".ipperf" / "runs").iterdir())
