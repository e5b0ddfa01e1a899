"""The recipes of the page of CI: their files have the right shape, and their shell lines do what the page says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.sessions.project_settings import ONE_EPOCH

TOP = Path(__file__).parents[2]
PAGE = (TOP / "docs" / "ci.md").read_text(encoding="utf-8")


def blocks(language):
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


# --- reading ----------------------------------------------------------------------------------------------------------


class Reader:
    """The part of YAML that the recipes keep to: mappings, lists, `|`, lists in brackets, words and quoted words."""

    def __init__(self, text):
        self.lines = [line for line in text.splitlines() if line.strip()]
        self.at = 0

    def read(self, depth=0) -> Any:
        return self.items(depth) if self.lines[self.at].lstrip().startswith("- ") else self.mapping(depth)

    def inside(self, depth):
        """Whether the next line stands exactly so far in."""
        if self.at == len(self.lines):
            return False
        found = len(self.lines[self.at]) - len(self.lines[self.at].lstrip())
        assert found <= depth, self.lines[self.at]
        return found == depth

    def mapping(self, depth) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self.inside(depth) and not self.lines[self.at].lstrip().startswith("- "):
            match = re.fullmatch(r"\s*([\w-]+):(?: (.*))?", self.lines[self.at])
            assert match, self.lines[self.at]
            assert match[1] not in found
            self.at += 1
            found[match[1]] = self.value(match[2] or "", depth)
        return found

    def items(self, depth) -> list[Any]:
        found: list[Any] = []
        while self.inside(depth) and self.lines[self.at].lstrip().startswith("- "):
            line = self.lines[self.at]
            if re.match(r"\s*- [\w-]+:(?: |$)", line):
                self.lines[self.at] = line.replace("- ", "  ", 1)
                found.append(self.mapping(depth + 2))
            else:
                self.at += 1
                text = line.strip()[2:]
                found.append(self.literal(depth) if text == "|" else scalar(text))
        return found

    def value(self, text, depth) -> Any:
        if text == "|":
            return self.literal(depth)
        if text:
            return [scalar(each.strip()) for each in text[1:-1].split(",")] if text.startswith("[") else scalar(text)
        further = self.at < len(self.lines) and len(re.match(" *", self.lines[self.at])[0])  # type: ignore[index]
        return self.read(further) if further and further > depth else None

    def literal(self, depth):
        own = []
        while self.at < len(self.lines) and self.lines[self.at].startswith(" " * (depth + 1)):
            own.append(self.lines[self.at])
            self.at += 1
        margin = min(len(line) - len(line.lstrip()) for line in own)
        return "".join(f"{line[margin:]}\n" for line in own)


def scalar(text) -> Any:
    if re.fullmatch(r"\d+", text):
        return int(text)
    if text in ("true", "false"):
        return text == "true"
    assert not re.match(r"[{&*!%@`>]", text), text
    return text[1:-1] if text[:1] == text[-1:] == '"' else text


NIGHT, CHANGE, GITLAB = (Reader(text).read() for text in blocks("yaml"))
JENKINS_NIGHT, JENKINS_CHANGE = blocks("groovy")
(CRON,) = blocks("sh")


def shells(name) -> Iterator[str]:
    """The shell lines of a recipe, in its order."""
    if name == "cron":
        yield CRON
    elif name.startswith("jenkins"):
        yield from re.findall(r"'''\n(.*?)'''", JENKINS_NIGHT if "night" in name else JENKINS_CHANGE, re.DOTALL)
    elif name.startswith("gitlab"):
        yield "\n".join(GITLAB["default"]["before_script"])
        job = GITLAB[name.partition("-")[2]]
        yield "\n".join(job["script"])
    else:
        (job,) = (NIGHT if "night" in name else CHANGE)["jobs"].values()
        yield from (step["run"] for step in job["steps"] if "run" in step)


NIGHTLY = ".venv/bin/pytest-ipperf night"
RECIPES = ["github-night", "github-change", "gitlab-night", "gitlab-change", "jenkins-night", "jenkins-change", "cron"]


# --- shape ------------------------------------------------------------------------------------------------------------

# GitHub's workflow syntax, and the inputs in each action's action.yml.
ACTIONS = {
    "actions/checkout": set(),
    "actions/cache/restore": {"path", "key", "restore-keys"},
    "actions/cache/save": {"path", "key"},
    "actions/upload-artifact": {"name", "path", "retention-days", "include-hidden-files"},
}  # fmt: skip


@pytest.mark.parametrize("workflow", [NIGHT, CHANGE], ids=["night", "change"])
def test_workflows_of_github_have_their_shape_and_githubs_own_actions(workflow):
    assert (
        {"name", "on", "permissions", "jobs"} <= set(workflow) <= {"name", "on", "permissions", "concurrency", "jobs"}
    )
    assert workflow["permissions"] == {"contents": "read"}
    assert set(workflow["on"]) <= {"schedule", "workflow_dispatch", "pull_request"}
    (job,) = workflow["jobs"].values()
    assert set(job) == {"runs-on", "timeout-minutes", "steps"}
    for step in job["steps"]:
        assert set(step) <= {"name", "uses", "run", "if", "with"}
        assert ("uses" in step) != ("run" in step)
        assert step.get("if", "always()") == "always()"
        if "uses" in step:
            action, version = step["uses"].split("@")
            assert set(step.get("with", {})) <= ACTIONS[action]
            assert re.fullmatch(r"v\d+", version)


def test_the_cache_of_github_is_saved_under_a_key_that_the_next_night_finds():
    (job,) = NIGHT["jobs"].values()
    used = {step["uses"].split("@")[0]: step["with"] for step in job["steps"] if "with" in step}
    restored, saved = used["actions/cache/restore"], used["actions/cache/save"]
    assert (restored["path"], restored["key"]) == (saved["path"], saved["key"])
    assert saved["key"].startswith(restored["restore-keys"])
    assert "github.run_id" in saved["key"]


def test_the_pipeline_of_gitlab_has_its_shape():
    assert set(GITLAB) == {"default", "night", "change"}
    assert set(GITLAB["default"]) <= {"tags", "before_script"}
    for name in ("night", "change"):
        job = GITLAB[name]
        assert set(job) <= {
            "rules", "resource_group", "timeout", "script", "allow_failure", "cache", "artifacts",
        }  # fmt: skip
        assert set(job["artifacts"]) <= {"name", "when", "expire_in", "paths", "reports"}
        assert job["artifacts"]["reports"] == {"junit": "report/junit.xml"}
        assert job["artifacts"]["when"] == "always"
    assert GITLAB["night"]["allow_failure"] == {"exit_codes": [10, 11]}
    assert GITLAB["change"]["allow_failure"] == {"exit_codes": [10]}
    assert set(GITLAB["night"]["cache"]) == {"key", "when", "paths"}


# Declarative syntax of Jenkins: by section what may stand in it. Steps end the descent, but `script`.
STEPS = {"sh", "script", "junit", "archiveArtifacts", "mail", "unstable", "error", "int"}
SECTIONS = {
    "": {"pipeline"},
    "pipeline": {"agent", "triggers", "options", "stages", "post"},
    "agent": {"label"},
    "triggers": {"cron"},
    "options": {"disableConcurrentBuilds", "timeout", "buildDiscarder"},
    "stages": {"stage"},
    "stage": {"steps"},
    "steps": STEPS,
    "script": STEPS | {"if", "else"},
    "if": STEPS,
    "else": STEPS | {"if"},
    "post": {"always", "unsuccessful"},
    "always": STEPS,
    "unsuccessful": STEPS,
}


@pytest.mark.parametrize("text", [JENKINS_NIGHT, JENKINS_CHANGE], ids=["night", "change"])
def test_jenkinsfiles_have_their_sections_and_balanced_brackets(text):
    bare = re.sub(r"'''.*?'''|'[^'\n]*'|\"[^\"\n]*\"", "TEXT", text, flags=re.DOTALL)
    assert not re.findall("['\"]", bare)
    open_ones, within = list[str](), [""]
    for line in bare.splitlines():
        rest = re.sub(r"^} else ", "else ", line.strip())
        if rest != line.strip():
            within.pop()
        for inner in re.split(r"(?<=\{) ", rest) if "{ " in rest else [rest]:
            word = re.match(r"[a-zA-Z]+", inner)
            if word:
                section = "if" if re.match("else if", inner) else word[0]
                assert word[0] in SECTIONS[within[-1]], line
                if inner.endswith("{"):
                    within.append(section)
            for _ in range(inner.count("}") - inner.count("{") + inner.endswith("{")):
                within.pop()
        for sign in line.replace("} else", "}else"):
            if sign in "({[":
                open_ones.append(sign)
            elif sign in ")}]":
                assert open_ones.pop() + sign in ("()", "{}", "[]")
    assert (open_ones, within) == ([], [""])
    assert {"agent", "stages", "post"} <= set(re.findall(r"^ {4}(\w+)", text, re.MULTILINE))


def test_no_recipe_has_a_secret():
    assert not re.findall(r"secrets\.|credentials|password|_TOKEN", PAGE)


def test_every_job_measures_the_same_by_the_same_lines():
    def measuring(kind):
        found = {}
        for name in RECIPES:
            if kind in name or (name, kind) == ("cron", "night"):
                lines = [line.strip() for text in shells(name) for line in text.splitlines()]
                (found[name],) = [line for line in lines if line.startswith((".venv/bin/pytest ", f"{NIGHTLY} "))]
        return {re.sub(r" (>|\|\|).*", "", line) for line in found.values()}

    assert measuring("night") == {f"{NIGHTLY} --ipperf-save=main --ipperf-output=report"}
    assert len(measuring("change")) == 1


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize("name", RECIPES)
def test_shells_can_read_every_line(shell, name):
    for text in shells(name):
        done = subprocess.run([shell, "-n"], input=text, text=True, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


# --- what the lines do ------------------------------------------------------------------------------------------------


def run(text, folder, shell=("sh", "-e")):
    """Runs lines as the service does, in a folder that a recipe's repository is; gives status, output and summary."""
    summary = folder / "step-summary.md"
    summary.touch()
    # What an outer pytest has set for itself is none of theirs.
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
    env["GITHUB_STEP_SUMMARY"] = str(summary)
    script = folder / "lines.sh"
    script.write_text(text)
    done = subprocess.run(
        [*shell, str(script)], cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=300
    )
    return done.returncode, done.stdout + done.stderr, summary.read_text()


SUITE = """\
import pytest


@pytest.mark.smtp
@pytest.mark.levels(connections=[1], payload=["1k"])
def test_smtp(measured, margin):
    assert measured.slowdown <= margin
"""


@pytest.fixture
def repository(tmp_path):
    """A repository with a small suite and an environment that is set up."""
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites" / "test_small.py").write_text(SUITE)
    (tmp_path / "suites" / "conftest.py").write_text(ONE_EPOCH)
    (tmp_path / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\ntestpaths = ["suites"]\nipperf_testbed = ["loopback"]\nipperf_design = "smoke"\n'
        'ipperf_server = "embedded"\naddopts = ["-p", "no:randomly"]\n'
    )
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "bin").symlink_to(Path(sys.executable).parent)
    return tmp_path


def ending(folder, status):
    """Has the environment's programs end at once with a status, so that it is seen what the lines make of it."""
    programs = folder / ".venv" / "bin"
    programs.unlink()
    programs.mkdir()
    summary = "mkdir -p report\necho told >report/summary.md\n" if status in (0, 1, 10, 11, 12) else ""
    lines = f"#!/bin/sh\n{summary}echo \"$*\" >>called\necho 'in the log'\nexit {status}\n"
    for name in ("pytest-ipperf", "pytest"):
        (programs / name).write_text(lines)
        (programs / name).chmod(0o755)


@pytest.mark.parametrize(
    ("status", "expected"),
    [(0, ""), (1, "::error title=Red night::"), (10, "::warning title=No verdict::nothing"),
     (11, "::warning title=No verdict::the machine"), (12, "::error title=Cells are missing::"),
     (4, "::error title=No night::status 4,")],
)  # fmt: skip
def test_on_github_a_night_ends_as_it_ended_and_says_which(repository, status, expected):
    ending(repository, status)
    ended, output, summary = run([*shells("github-night")][-1], repository, ("bash", "-e"))
    assert (ended, summary) == (status, "" if status == 4 else "told\n")
    assert output.removeprefix("in the log\n").startswith(expected)
    assert output.count("::") == 2 * bool(status)


@pytest.mark.parametrize(("status", "ended"), [(0, 0), (1, 1), (10, 0), (4, 4)])
def test_on_github_an_undecided_change_is_a_warning(repository, status, ended):
    ending(repository, status)
    found, output, _ = run([*shells("github-change")][-1], repository, ("bash", "-e"))
    assert (found, "::warning" in output) == (ended, status == 10)


@pytest.mark.parametrize("status", [0, 1, 2, 3, 4, 5, 10])
@pytest.mark.parametrize("name", [name for name in RECIPES if "change" in name])
def test_the_page_of_a_change_is_none_of_an_older_session(repository, name, status):
    ending(repository, status)
    (lines,) = (text for text in shells(name) if " export last " in text)
    ended, _, _ = run(lines, repository, ("bash", "-e") if "github" in name else ("sh", "-e"))
    assert ended == (0 if (name, status) == ("github-change", 10) else status)
    measured, *exported = (repository / "called").read_text().splitlines()
    assert measured.startswith("-m ")
    assert [each.partition(" --")[0] for each in exported] == (["export last"] if status in (0, 1, 10) else [])


@pytest.mark.parametrize(
    ("status", "expected"),
    [(0, ""), (1, "Red: a cell"), (10, "No verdict: nothing"), (11, "No verdict: the machine"),
     (12, "Cells are missing:"), (2, "No night: status 2.\n\nThe end of ")],
)  # fmt: skip
def test_cron_has_something_to_mail_unless_all_is_well(repository, status, expected):
    ending(repository, status)
    script = repository / "ipperf-night"
    script.write_text(CRON)
    ended, output, _ = run(f"exec sh {script} {repository}\n", repository)
    assert ended == status
    assert output.startswith(expected)
    last = {0: "", 2: "/night.log:\nin the log\n"}
    assert output.endswith(last.get(status, "\n\ntold\n"))
    assert bool(output) == bool(status)
    assert ("in the log" in output) == (status == 2)


def test_cron_says_that_its_folder_is_not_there(repository):
    ended, output, _ = run(f"exec sh -s /nowhere <<'END'\n{CRON}\nEND\n", repository)
    assert ended == 4
    assert "/nowhere" in output


@pytest.mark.skipif(not shutil.which("bash"), reason="GitHub runs its lines by bash")
def test_a_change_is_measured_by_the_lines_of_the_page(repository):
    status, output, summary = run([*shells("github-change")][-1], repository, ("bash", "-e"))
    assert "::warning title=No verdict::nothing was decided" in output, output
    assert status == 0
    assert summary.startswith("### Measurements\n\n**IPv6 against IPv4, measured without a verdict: ")
    (export,) = re.findall(r"\.venv\S* export last .*(?= \|\| true)", GITLAB["change"]["script"][0])
    page, _, _ = run(f"{export}\n", repository)
    assert page == 0
    assert (repository / "report" / "report.html").read_text().startswith("<!DOCTYPE html>")
    assert (repository / "report" / "junit.xml").exists()
    assert [*(repository / ".ipperf" / "runs").iterdir()]


def smoke(text):
    """The lines of a night as the page has them, but for a design that takes seconds; it never judges."""
    assert text.count("pytest-ipperf night ") == 1
    return text.replace("pytest-ipperf night ", "pytest-ipperf night --design=smoke ")


def github_night(repository):
    status, output, summary = run(smoke([*shells("github-night")][-1]), repository, ("bash", "-e"))
    assert "::warning title=No verdict::nothing was decided" in output, output
    assert (status, summary.partition("\n")[0]) == (10, "### Night: nothing decided (exit status 10)")
    assert {path.name for path in (repository / "report").iterdir()} == {
        "junit.xml", "report.html", "summary.md", "verdict.json",
    }  # fmt: skip


def test_a_night_is_measured_by_the_lines_of_the_page(repository):
    github_night(repository)


@pytest.mark.evidence
def test_a_night_by_cron_mails_what_the_night_before_had(repository):
    github_night(repository)
    suite = repository / "suites" / "test_small.py"
    suite.write_text(SUITE.replace('payload=["1k"]', 'payload=["2k"]'))
    status, output, _ = run(smoke(CRON).replace("/srv/ipperf", str(repository)), repository)
    assert status == 12
    assert output.startswith("Cells are missing: the night measured less than the one before.\n\n### Night: cells are")
    assert "| no longer measured |" in output
    assert len([*(repository / ".ipperf" / "nights").iterdir()]) == 2
