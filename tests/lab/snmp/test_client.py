"""The answers of a real snmpd, and that its community is not revealed."""

from __future__ import annotations

import copy
import dataclasses
import json
import os
import pickle
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_ipperf.agent.sockets.ports import free_port
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.lab.inventory.model import Host
from pytest_ipperf.lab.inventory.snmp_source import Source, read_source
from pytest_ipperf.lab.snmp import client
from pytest_ipperf.lab.snmp.client import counters, description

COMMUNITY, WRITER = "s3cr@t!", "writer"
# NET-SNMP-AGENT-MIB: nsCacheTimeout of ifTable, in seconds.
CACHE_TIMEOUT = ".1.3.6.1.4.1.8072.1.5.3.1.2.1.3.6.1.2.1.2.2"
CONFIGURATION = """
rwcommunity {writer} 127.0.0.1
rocommunity {community} 127.0.0.1
rocommunity6 {community} ::1
sysDescr A box of "tests" \\with an end
agentXSocket {folder}/agentx
"""


@pytest.fixture(scope="module")
def snmpd(tmp_path_factory):
    """Start snmpd and return its addresses by IP version, without its community.

    It reads the kernel's counters every second, and not every three.
    """
    program = shutil.which("snmpd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if not program or not shutil.which("snmpget"):
        pytest.skip("no snmpd or no snmpget here (Debian: apt-get install snmpd snmp)")
    folder = tmp_path_factory.mktemp("snmpd")
    (folder / "snmpd.conf").write_text(CONFIGURATION.format(community=COMMUNITY, writer=WRITER, folder=folder))
    port = free_port(["127.0.0.1", "::1"], 20000, 29999, random.Random())
    places = {4: f"127.0.0.1:{port}", 6: f"[::1]:{port}"}
    listening = [f"udp:{places[4]}", f"udp6:{places[6]}"]
    argv = [program, "-f", "-Lf", folder / "log", "-C", "-c", folder / "snmpd.conf", *listening]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.sendto(b"", ("127.0.0.1", 9))  # or in a new network there may be nothing to count yet
    env = {**os.environ, "SNMP_PERSISTENT_DIR": str(folder), "MIBS": "", "MIBDIRS": str(folder)}
    with subprocess.Popen(argv, env=env) as process:
        try:
            end = time.monotonic() + 60
            while not answers(f"{COMMUNITY}@{places[6]}") and time.monotonic() < end:
                assert process.poll() is None, (folder / "log").read_text()
            setting = ["snmpset", "-v2c", "-c", WRITER, "-t5", places[4], CACHE_TIMEOUT, "i", "1"]
            subprocess.run(setting, env=env, stdout=subprocess.DEVNULL, check=True)
            yield places
        finally:
            process.kill()


def answers(text):
    try:
        return description(read_source(text))
    except LabError:
        return ""


@pytest.fixture(params=[4, 6])
def source(request, snmpd):
    return read_source(f"{COMMUNITY}@{snmpd[request.param]}")


def test_a_host_says_what_it_is(source):
    assert description(source) == 'A box of "tests" \\with an end'


def test_interfaces_are_counted(source):
    before, after = counters(source), counters(source)
    assert 0 <= before["uptime_s"] <= after["uptime_s"] < 3600
    lo = after["interfaces"]["lo"]
    assert sorted(lo) == ["bits", "in_bytes", "out_bytes"]
    assert lo["bits"] == 64
    # It looks every second, so it is not known how much of the last is in. /sys may show another namespace's.
    (line,) = [line for line in Path("/proc/net/dev").read_text().splitlines() if line.startswith("    lo:")]
    fields = line.split()
    assert 0 < lo["in_bytes"] <= int(fields[1])
    assert 0 < lo["out_bytes"] <= int(fields[9])


def test_counters_of_32_bits_are_taken_where_there_are_no_others(source, monkeypatch):
    monkeypatch.setattr(client, "_OCTETS", {key: (".1.3.6.1.9", short) for key, (_, short) in client._OCTETS.items()})
    monkeypatch.setattr(client, "_IF_NAME", ".1.3.6.1.9")
    reported = counters(source)["interfaces"]
    assert reported["lo"]["bits"] == 32
    monkeypatch.setattr(client, "_OCTETS", dict.fromkeys(client._OCTETS, (".1.3.6.1.9", ".1.3.6.1.9")))
    assert counters(source)["interfaces"] == {}


def test_who_does_not_answer_is_told(snmpd, monkeypatch):
    monkeypatch.setattr(client, "_WORDS", ("-Oqnt", "-t", "0.1", "-r", "0"))
    port = free_port(["127.0.0.1"], 20000, 29999, random.Random())
    sentences = []
    for text in (f"wrong@{snmpd[4]}", f"{COMMUNITY}@127.0.0.1:{port}"):
        with pytest.raises(LabError) as caught:
            description(read_source(text))
        sentences.append(str(caught.value))
    assert sentences == [
        f"snmpget of ...@{snmpd[4]}: Timeout: No Response from udp:{snmpd[4]}.",
        f"snmpget of ...@127.0.0.1:{port}: Timeout: No Response from udp:127.0.0.1:{port}.",
    ]


def test_without_its_programs_it_is_told_which_package_has_them(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(LabError) as caught:
        description(read_source("public@127.0.0.1"))
    assert str(caught.value) == "program snmpget is not installed (Debian: apt-get install snmp)"


SPY = """#!{python}
import os, pathlib, stat, sys
file = pathlib.Path(os.environ["SNMPCONFPATH"]) / "snmp.conf"
print(sys.argv, oct(stat.S_IMODE(file.stat().st_mode)), file.read_text(), file=open({reported!r}, "w"))
if {kills}:
    os.kill(os.getppid(), 9)
print("why: s3cr@t! is wrong", file=sys.stderr)
sys.exit(1)
"""


def spied(tmp_path, monkeypatch, *, kills=False):
    """Replace snmpget by a program that reports its arguments."""
    spy, reported = tmp_path / "snmpget", str(tmp_path / "told")
    spy.write_text(SPY.format(python=sys.executable, reported=reported, kills=kills))
    spy.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return reported


def test_no_community_is_on_a_command_line_or_in_a_message(tmp_path, monkeypatch):
    reported = spied(tmp_path, monkeypatch)
    before = os.umask(0)
    try:
        asked(reported)
    finally:
        os.umask(before)
    assert not list(tmp_path.glob("ipperf-*"))


def asked(reported):
    with pytest.raises(LabError) as caught:
        description(read_source(f"{COMMUNITY}@127.0.0.1"))
    assert str(caught.value) == "snmpget of ...@127.0.0.1:161: why: ... is wrong"
    argv, rest = Path(reported).read_text().split("]", 1)
    assert COMMUNITY not in argv
    assert rest.split() == ["0o600", "defVersion", "2c", "defCommunity", COMMUNITY]


ASKS = (
    "import sys; from pytest_ipperf.lab.inventory.snmp_source import read_source; "
    "from pytest_ipperf.lab.snmp.client import description; description(read_source(sys.argv[1]))"
)


def test_no_community_is_left_by_one_who_was_killed(tmp_path, monkeypatch, me):
    reported = spied(tmp_path, monkeypatch, kills=True)
    env = {**me.env, "PATH": str(tmp_path), "TMPDIR": str(tmp_path)}
    done = subprocess.run(me.argv(ASKS, f"{COMMUNITY}@127.0.0.1"), env=env, check=False)
    assert done.returncode == -signal.SIGKILL
    (left,) = tmp_path.glob("ipperf-*")
    os.utime(left / ".lock", (0, 0))
    spied(tmp_path, monkeypatch)
    asked(reported)
    assert not list(tmp_path.glob("ipperf-*"))


def test_a_copy_of_a_source_does_not_know_the_community():
    source = read_source(f"{COMMUNITY}@[2001:db8::1]:1161")
    assert (source.community, source.place) == (COMMUNITY, "udp6:[2001:db8::1]:1161")
    host = Host(name="far", way="ssh", settings={"ssh": "far"}, snmp=source)
    assert dataclasses.replace(host, name="near").snmp is source
    shown = "...@[2001:db8::1]:1161"
    kept = dataclasses.asdict(host)["snmp"]
    for each in (kept, copy.deepcopy(source), pickle.loads(pickle.dumps(source))):
        assert type(each) is str
        assert each == shown
    for text in (repr(host), repr(source), f"{source}", json.dumps([source])):
        assert COMMUNITY not in text
    assert isinstance(source, Source)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (".1.2 3\n", {".1.2": "3"}),
        ('.1.2 "one\ntwo"\n.1.3.0 4\n', {".1.2": '"one\ntwo"', ".1.3.0": "4"}),
        (".1.2 No Such Object available on this agent at this OID\n.1.3 1\n", {".1.3": "1"}),
        (".1.2 No more variables left in this MIB View (It is past the end of the MIB tree)\n", {}),
        ('.1.2 ""\n', {".1.2": '""'}),
        ("", {}),
    ],
)
def test_answers_are_taken_apart(text, found):
    assert dict(client._answers(text)) == found


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ('"A box\\\\ \x1b[2Jof \x07tests"', "A box\\ ?[2Jof ?tests"),
        ('"one\r\ntwo"', "one\ntwo"),
        ("eth0\x9b2J", "eth0?2J"),
    ],
)
def test_what_is_told_is_shown_without_what_a_terminal_would_obey(value, shown):
    assert client._text(value) == shown


# --- in a session -----------------------------------------------------------------------------------------------------

HOSTS = """
[testbed office]
client = here
server = there
[host here]
ipv4 = 127.0.0.1
ipv6 = ::1
snmp = nobody@127.0.0.1:{closed}
[host there]
ipv4 = 127.0.0.1
ipv6 = ::1
snmp = {community}@{place}
"""


def test_a_session_keeps_what_hosts_tell_and_no_community(project, snmpd):
    closed = free_port(["127.0.0.1"], 20000, 29999, random.Random())
    place = project.pytester.path
    (place / "hosts.ini").write_text(HOSTS.format(closed=closed, community=COMMUNITY, place=snmpd[6]))
    asked = ("--design=smoke", "--connections=1", "--ipver=6", "--transport=native", "--ipperf-server=embedded")
    result = project.run(*asked, testbed="office")
    result.stdout.fnmatch_lines([f"ipperf: host here gives no SNMP counters: snmpget of ...@127.0.0.1:{closed}: *"])
    result.stdout.no_fnmatch_line("*host there tells nothing*")
    (journal,) = place.glob(".ipperf/runs/*/main.jsonl")
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    counted = [each for each in events if each["event"] == "counters"]
    assert [(each["epoch"], each["when"]) for each in counted] == [
        (0, "before"), (0, "after"), (1, "before"), (1, "after"),
    ]  # fmt: skip
    for each in counted:
        assert list(each["hosts"]) == ["server"]
        assert each["hosts"]["server"]["interfaces"]["lo"]["in_bytes"] > 0
    for each in (each for each in events if each["event"] == "epoch"):
        assert each["fingerprint"]["server"]["snmp"] == 'A box of "tests" \\with an end'
        assert "snmp" not in each["fingerprint"]["client"]
    (complete,) = [each for each in events if each["event"] == "complete"]
    assert complete["testbed"]["server"]["snmp"] == f"...@{snmpd[6]}"
    assert COMMUNITY not in result.stdout.str()
    kept = [path for path in place.rglob("*") if path.is_file() and COMMUNITY.encode() in path.read_bytes()]
    assert kept == [place / "hosts.ini"]
