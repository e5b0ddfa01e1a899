"""Servers on a host behind ssh are disposable: 500 accounts are verified, and the host's own are as they were."""

from __future__ import annotations

import re

import pytest

from pytest_ipperf.plugin.measure.outcome import NOTHING_DECIDED
from pytest_ipperf.servers import SERVERS

REAL = ("dovecot", "postfix")
SUITE = """
    import pytest

    @pytest.mark.imap
    @pytest.mark.levels(connections=[10], payload=["1k"])
    def test_imap(measured, margin):
        assert measured.slowdown <= margin

    @pytest.mark.smtp
    @pytest.mark.levels(connections=[10], payload=["1k"])
    def test_smtp(measured, margin):
        assert measured.slowdown <= margin
"""
# Every file of the system's own configuration and state with what may be changed of it; users are in two of them.
FILES = """
find /etc /var/mail /var/spool /var/lib -xdev \
  -printf '%p %y %m %U:%G %s %T@ %l\\n' 2>/dev/null | sort
"""
PROCESSES = "for each in /proc/[0-9]*; do tr '\\0' ' ' < $each/cmdline; echo; done 2>/dev/null | sort"
LISTENING = "cat /proc/net/tcp /proc/net/tcp6 | awk '$4 == \"0A\" {print $2}' | sort"


def seen(host):
    """The host's files, processes and listening ports."""
    files = set(host.run("sh", "-c", FILES).splitlines())
    processes = [each for each in host.run("sh", "-c", PROCESSES).splitlines() if not re.match(r"sh -c|tr |sort", each)]
    return files, sorted(filter(str.strip, processes)), host.run("sh", "-c", LISTENING)


def test_real_servers_with_500_accounts_leave_a_host_as_it_was(farm):
    if missing := [why for name in REAL if (why := SERVERS[name].missing())]:
        pytest.skip("; ".join(missing))
    hosts = farm()
    server = hosts.hosts["server1"]
    before = seen(server)
    argv = ("--design=glance", "--transport=native", f"--ipperf-server={','.join(REAL)}")
    process = hosts.session(*argv, suite=SUITE)
    said, _ = process.communicate(timeout=240)
    assert process.returncode == NOTHING_DECIDED, said
    assert re.search(r"dovecot \S+ holds its 500 accounts, as a log-in to each showed", said), said
    assert said.count("holds its 500 accounts") == 1
    assert hosts.left() == []  # now, as a session of sshd may be just about to go
    files, processes, listening = seen(server)
    assert sorted(before[0] ^ files) == []
    assert (before[1], before[2]) == (processes, listening)
    assert hosts.events("left") == []
