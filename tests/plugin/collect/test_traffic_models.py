"""A user's own traffic models: a folder of files, whose mistakes are reported before anything is measured."""

from __future__ import annotations

import pytest

MODEL = """
title = "Electricity meter"
source = "own devices"

[[stream]]
direction = "up"
interval_ms = 500
size_bytes = 48
"""
SUITE = """
import pytest

@pytest.mark.traffic
@pytest.mark.levels(model=["{model}"], connections=[1])
def test_it(measured, margin):
    assert measured.slowdown <= margin
"""


@pytest.fixture
def collected(pytester):
    """Write models and a suite, and collect it; return the result."""

    def run(*arguments, model="meter", **files):
        folder = pytester.path / "own"
        folder.mkdir()
        for name, text in files.items():
            (folder / f"{name}.toml").write_text(text)
        pytester.makepyfile(test_own=SUITE.format(model=model))
        return pytester.runpytest_inprocess(
            "--collect-only", "-q", "--testbed=loopback", "--ipver=6", "-p", "no:randomly", *arguments
        )

    return run


def test_a_model_of_the_users_folder_is_measured_by_its_name(collected):
    result = collected("--ipperf-models=own", meter=MODEL)
    result.stdout.fnmatch_lines(["test_own.py::test_it[[]loopback-traffic-c1-512-meter-ipv6[]]"])


def test_the_ini_file_names_the_folder_too(collected, pytester):
    pytester.makeini("[pytest]\nipperf_models = own\n")
    result = collected(meter=MODEL)
    result.stdout.fnmatch_lines(["test_own.py::test_it[[]loopback-traffic-c1-512-meter-ipv6[]]"])


def test_an_unknown_model_is_a_mistake_of_the_test(collected):
    result = collected("--ipperf-models=own", model="metre", meter=MODEL)
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*no traffic model 'metre'; there are *meter, *did you mean 'meter'?*"])


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"meter": MODEL.replace("interval_ms = 500", "")}, "*own/meter.toml: stream 1: interval_ms is missing*"),
        ({"other": MODEL + "colour = 1"}, "*own/other.toml: stream 1: key 'colour' does not exist; there are *"),
        ({"Meter": MODEL}, "*own/Meter.toml has a name that test ids cannot have; *"),
    ],
)
def test_a_mistake_is_reported_with_its_file_and_key(collected, files, said):
    result = collected("--ipperf-models=own", **{"meter": MODEL} | files)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([said])


def test_a_folder_that_is_not_there_is_named(collected):
    result = collected("--ipperf-models=elsewhere", meter=MODEL)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*folder *elsewhere of traffic models does not exist*"])
