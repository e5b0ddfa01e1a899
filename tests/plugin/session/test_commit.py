"""The commit of the code that a session runs, from a real git; a session without git has none."""

import json
import shutil
import subprocess

import pytest

from pytest_ipperf.plugin.session.commit import commit_facts

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Folder in no repository, whatever holds the temporary one."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    made = tmp_path / "suite"
    made.mkdir()
    return made


def git(folder, *words):
    options = ("-c", "user.name=ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", "-C", folder, *options, *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(folder):
    """Make the folder a repository with a commit; return its name."""
    git(folder, "init", "--quiet")
    (folder / "test_own.py").write_text("")
    git(folder, "add", "test_own.py")
    git(folder, "commit", "--quiet", "--message=x")
    return git(folder, "rev-parse", "HEAD")


def test_the_commit_is_that_of_the_folder_and_dirty_are_tracked_files_alone(folder):
    name = commit(folder)
    (folder / ".ipperf").write_text("a file that git does not know")
    assert commit_facts(folder) == {"commit": name, "dirty": False}
    (folder / "inner").mkdir()
    (folder / "test_own.py").write_text("changed")
    assert commit_facts(folder / "inner") == {"commit": name, "dirty": True}


def test_without_a_repository_or_a_commit_or_git_there_is_none(folder, monkeypatch):
    assert commit_facts(folder) == {}
    git(folder, "init", "--quiet")
    assert commit_facts(folder) == {}
    monkeypatch.setenv("PATH", str(folder))
    assert commit_facts(folder) == {}


def test_the_repository_of_a_hook_is_not_taken_for_that_of_the_folder(folder, tmp_path, monkeypatch):
    other = tmp_path / "other"
    other.mkdir()
    commit(other)
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    assert commit_facts(folder) == {}


def test_a_session_keeps_it(project):
    project.network()
    name = commit(project.pytester.path)
    project.run("--connections=1").assert_outcomes(passed=1)
    (log,) = (project.pytester.path / ".ipperf" / "runs").glob("*/main.jsonl")
    with log.open() as lines:
        first = json.loads(next(lines))
    assert (first["event"], first["commit"], first["dirty"]) == ("session", name, False)
