"""Requirements of tests on the machine: a missing one is named, and some may not be missing.

A skipped test says `no PROGRAM here (Debian: apt-get install PACKAGE)`, or `no NAME here (sh .ci/SCRIPT fetches it)`.
Where the environment variable IPPERF_INSTALLED lists the Debian packages that were installed for the tests, and what
was fetched, as `.ci/run` does, such a skip is a failure: otherwise a test that looks for its program at the wrong place
would be left out everywhere, and nobody would see it.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Generator

import pytest

PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
"""Search path for programs: an ordinary user's PATH on Debian lacks half of them."""
_PACKAGES = {
    "apache2": "apache2-bin",
    "bash": "bash",
    "dumpcap": "wireshark-common",
    "ethtool": "ethtool",
    "ip": "iproute2",
    "iperf3": "iperf3",
    "ministat": "ministat",
    "nft": "nftables",
    "node": "nodejs",
    "npm": "npm",
    "nsenter": "util-linux",
    "ntpdate": "ntpsec-ntpdate",
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
    "tshark": "tshark",
    "unshare": "util-linux",
}
_NAMED = re.compile(r"apt-get install ([^)]*)|no (\S+) here \(sh \.ci/")
_MODULE = re.compile(r"could not import |pip install ")


def lacking(*programs: str) -> str:
    """Return the message that names missing programs; empty if none is missing."""
    absent = [program for program in programs if not shutil.which(program, path=PATH)]
    if not absent:
        return ""
    packages = " ".join(sorted({_PACKAGES[program] for program in absent}))
    return f"no {', no '.join(absent)} here (Debian: apt-get install {packages})"


def needs(*programs: str) -> pytest.MarkDecorator:
    """Return a mark that skips a test, naming the programs that it needs and that are missing."""
    return pytest.mark.skipif(bool(lacking(*programs)), reason=lacking(*programs))


def require(*programs: str) -> None:
    """Skip the current test, also from a fixture, if a program is missing."""
    if absent := lacking(*programs):
        pytest.skip(absent)


def forbidden(reason: str, installed: str) -> str:
    """Return why a skip is a failure, given the packages `installed`; empty if it is not.

    Nothing is forbidden where no packages are listed. A Python module counts as installed everywhere, as the tests'
    environment comes from a lock file.
    """
    if not installed.split():
        return ""
    if _MODULE.search(reason):
        return f"skipped for want of what requirements.lock installs: {reason}"
    there = {package for names in _NAMED.findall(reason) for named in names for package in named.split()} & {
        *installed.split()
    }
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
