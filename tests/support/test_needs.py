"""A skip names what the machine lacks, and is a failure if it was installed."""

from __future__ import annotations

import pytest

from tests.support import axe, needs
from tests.support.needs import forbidden, lacking

SKIPPED = """\
import pytest
from tests.support.needs import needs, require

@needs("tcpdump", "ip")
def test_marked():
    raise AssertionError("it was run")

@pytest.fixture
def ping():
    require("ping", "sh")

def test_by_a_fixture(ping):
    raise AssertionError("it was run")

def test_a_module():
    pytest.importorskip("nothing_of_this_name")

@pytest.mark.skip(reason="this takes another kernel")
def test_a_kernel():
    pass
"""
NAMED = (
    "no tcpdump, no ip here (Debian: apt-get install iproute2 tcpdump)",
    "no ping here (Debian: apt-get install iputils-ping)",
)


def run(pytester, monkeypatch, installed):
    """Run an inner session of tests that lack all programs but sh."""
    (pytester.path / "bin").mkdir()
    (pytester.path / "bin" / "sh").symlink_to("/bin/sh")
    monkeypatch.setattr(needs, "PATH", str(pytester.path / "bin"))
    monkeypatch.setitem(needs._PACKAGES, "sh", "dash")
    monkeypatch.setenv("IPPERF_INSTALLED", installed)
    pytester.makepyfile(SKIPPED)
    return pytester.runpytest("-ra", "-p", "tests.support.needs", "-p", "no:randomly", "-p", "no:ipperf")


def test_a_skip_names_the_programs_and_their_packages(pytester, monkeypatch):
    result = run(pytester, monkeypatch, "")
    result.assert_outcomes(skipped=4)
    result.stdout.fnmatch_lines([f"SKIPPED* {sentence}" for sentence in NAMED])


def test_a_skip_for_want_of_what_is_installed_is_a_failure(pytester, monkeypatch):
    result = run(pytester, monkeypatch, "tcpdump iputils-ping")
    result.assert_outcomes(skipped=1, failed=1, errors=2)
    result.stdout.fnmatch_lines(
        [
            f"*skipped for want of tcpdump, which is installed: *{NAMED[0]}",
            f"*skipped for want of iputils-ping, which is installed: *{NAMED[1]}",
            "*skipped for want of what requirements.lock installs: *nothing_of_this_name*",
            "SKIPPED* this takes another kernel",
        ]
    )


def test_a_module_that_is_left_out_as_a_whole_is_a_failure_too(pytester, monkeypatch):
    monkeypatch.setenv("IPPERF_INSTALLED", "make")
    pytester.makepyfile('import pytest\npytest.importorskip("nothing_of_this_name")\n')
    result = pytester.runpytest("-p", "tests.support.needs", "-p", "no:ipperf")
    result.assert_outcomes(errors=1)


@pytest.mark.parametrize(
    ("reason", "installed", "found"),
    [
        ("no ip here (Debian: apt-get install iproute2)", "", ""),
        ("no ip here (Debian: apt-get install iproute2)", "make procps", ""),
        ("no ip here (Debian: apt-get install iproute2)", "make iproute2", "skipped for want of iproute2, "),
        ("bind: named is not installed (Debian: apt-get install bind9)", "bind9", "skipped for want of bind9, "),
        (axe.LACKING, "axe-core", "skipped for want of axe-core, "),
        (axe.LACKING, "npm", ""),
        ("the kernel has the driver", "bind9", ""),
        ("needs root, bind9 or not", "bind9", ""),
    ],
)
def test_what_may_not_be_skipped(reason, installed, found):
    assert forbidden(reason, installed).startswith(found)
    assert bool(forbidden(reason, installed)) == bool(found)


def test_what_is_there_is_not_lacking():
    assert lacking("unshare") in ("", "no unshare here (Debian: apt-get install util-linux)")
    with pytest.raises(KeyError, match="a-program-without-a-package"):
        lacking("a-program-without-a-package")
