"""What a test needs of the machine, named where it is missing, and a list of what must not be missing.

A skipped test says `no PROGRAM here (Debian: apt-get install PACKAGE)`. Where the environment variable IPPERF_INSTALLED
lists the Debian packages that were installed for the tests, as `.ci/run` does, such a skip is a failure: otherwise a
test that looks for its program at the wrong place would be left out everywhere, and nobody would see it.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Generator

import pytest

PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
"""Where programs are looked for: an ordinary user's PATH lacks half of it on Debian."""
_PACKAGES = {
    "apache2": "apache2-bin",
    "bash": "bash",
    "ethtool": "ethtool",
    "ip": "iproute2",
    "iperf3": "iperf3",
    "nft": "nftables",
    "node": "nodejs",
    "npm": "npm",
    "nsenter": "util-linux",
    "openssl": "openssl",
    "ping": "iputils-ping",
    "ps": "procps",
    "setpriv": "util-linux",
    "snmpd": "snmpd",
    "snmpget": "snmp",
    "ss": "iproute2",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "sshd": "openssh-server",
    "sudo": "sudo",
    "sysctl": "procps",
    "tc": "iproute2",
    "tcpdump": "tcpdump",
    "unshare": "util-linux",
}
_NAMED = re.compile(r"apt-get install ([^)]*)")
_MODULE = re.compile(r"could not import |pip install ")


def lacking(*programs: str) -> str:
    """Return the sentence that names the programs that are not here; empty where all are."""
    absent = [program for program in programs if not shutil.which(program, path=PATH)]
    if not absent:
        return ""
    packages = " ".join(sorted({_PACKAGES[program] for program in absent}))
    return f"no {', no '.join(absent)} here (Debian: apt-get install {packages})"


def needs(*programs: str) -> pytest.MarkDecorator:
    """Mark a test that runs programs, so that it is skipped with their names where they are missing."""
    return pytest.mark.skipif(bool(lacking(*programs)), reason=lacking(*programs))


def require(*programs: str) -> None:
    """Skip the test that runs, or that asks for the fixture that runs, where a program is missing."""
    if absent := lacking(*programs):
        pytest.skip(absent)


def forbidden(reason: str, installed: str) -> str:
    """Return why a skip is a failure where the packages `installed` are there; empty where it is none.

    Nothing is forbidden where no packages are listed. A Python module counts as installed everywhere, as the tests'
    environment comes from a lock file.
    """
    if not installed.split():
        return ""
    if _MODULE.search(reason):
        return f"skipped for want of what requirements.lock installs: {reason}"
    there = {package for named in _NAMED.findall(reason) for package in named.split()} & {*installed.split()}
    return f"skipped for want of {' '.join(sorted(there))}, which is installed: {reason}" if there else ""


def _failed_instead(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.outcome != "skipped" or not isinstance(report.longrepr, tuple) or hasattr(report, "wasxfail"):
        return
    if why := forbidden(report.longrepr[2], os.environ.get("IPPERF_INSTALLED", "")):
        report.outcome, report.longrepr = "failed", why


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _failed_instead(report)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _failed_instead(report)
    return report
