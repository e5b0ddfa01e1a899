"""`--client=library` from the command line to the records."""

import re
from importlib.metadata import version

import pytest

from pytest_ipperf.plugin.measure.outcome import NOTHING_DECIDED
from tests.support.sessions.project_settings import GLANCE

BOTH = """
    import pytest

    @pytest.mark.levels(connections=[5], payload=["1k"])
    @pytest.mark.smtp
    def test_smtp(measured, margin):
        assert measured.slowdown <= margin

    @pytest.mark.levels(connections=[5], payload=["1k"])
    @pytest.mark.http
    def test_http(measured, margin):
        assert measured.slowdown <= margin
"""
# Simulates a controller without the extra, in a process of its own.
WITHOUT = """
    import dataclasses
    from pytest_ipperf.protocols import smtp
    smtp.protocol = dataclasses.replace(smtp.protocol, packages=("ipperf-nowhere",))
"""
SENTENCE = (
    "--client=library needs ipperf-nowhere for smtp, and none is installed here; "
    'pip install "pytest-ipperf[library]"'
)  # fmt: skip


def test_the_library_client_is_measured_with_and_named(project):
    project.pytester.makepyfile(BOTH)
    project.pytester.makeconftest(GLANCE)
    result = project.run("--client=library", "--design=glance", "--ipperf-server=embedded", "-v")
    assert result.ret == NOTHING_DECIDED, result.outlines
    result.stdout.fnmatch_lines_random(
        [
            "ipperf *; client library; *",
            "*test_smtp[[]loopback-smtp-library-c5-1k-ipv6] UNJUDGED*",
            "*test_http[[]loopback-http-library-c5-1k-ipv6] UNJUDGED*",
            "testbed loopback, server aiosmtpd *, client library, *",
        ]
    )
    runs = [line for line in project.kept() if line["event"] == "run"]
    assert {run["proof"]["client"] for run in runs} == {
        f"{package} {version(package)}" for package in ("aiohttp", "aiosmtplib")
    }
    assert all((run["failed"], run["contradictions"]) == ({}, []) for run in runs)


def test_the_lean_client_needs_no_package(project):
    project.pytester.makeconftest(WITHOUT)
    project.run("--collect-only", "-q").stdout.fnmatch_lines(["*[[]loopback-smtp-c10-1k-ipv6]"])


def test_packages_that_are_not_here_are_told_before_anything_is_measured(project):
    project.pytester.makepyfile(BOTH)
    project.pytester.makeconftest(WITHOUT)
    result = project.run("--client=library")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {SENTENCE.replace('[', '[[]')}"])
    assert not (project.pytester.path / ".ipperf").exists()


def test_they_are_missed_only_by_what_is_selected(project):
    project.pytester.makepyfile(BOTH)
    project.pytester.makeconftest(WITHOUT)
    result = project.run("--client=library", "-m", "http", "--collect-only", "-q")
    assert re.findall(r"\[(loopback-\S+)\]", result.stdout.str()) == ["loopback-http-library-c5-1k-ipv6"]


def test_under_xdist_the_items_tell_it(project):
    pytest.importorskip("xdist")
    project.pytester.makeconftest(WITHOUT)
    result = project.run("--client=library", "-n", "1", "--connections=1")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([SENTENCE.replace("[", "[[]")])
