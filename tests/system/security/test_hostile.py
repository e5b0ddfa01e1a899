"""Hostile values of `hosts.ini` execute nothing, here or there, and open no access but what there is."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import pytest
from execnet.gateway_base import Message, dumps_internal
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.lab.access import ACCESS_METHODS
from pytest_ipperf.lab.agents import client as client_module
from pytest_ipperf.lab.agents.client import AgentClient
from pytest_ipperf.lab.inventory import HOST_KEYS, LAB_KEYS, TESTBED_KEYS, read_inventory
from pytest_ipperf.lab.inventory.builtin import BUILTIN
from pytest_ipperf.store.log.event_log import EventLog

CANARY = "canary-of-the-tests"
HOSTILE = [
    f"$(touch {CANARY})", f"`touch {CANARY}`", f"x;touch {CANARY}", f"x && touch {CANARY}", f"x | touch {CANARY}",
    f"x\ttouch {CANARY}", f"x\n  touch {CANARY}", f"x\n  -oProxyCommand=touch {CANARY}", f"'; touch {CANARY}; '",
    f'"; touch {CANARY}; "', f"-oProxyCommand=touch {CANARY}", f"x -oProxyCommand=touch {CANARY}", "-F/dev/null",
    f"ssh://-oProxyCommand=touch%20{CANARY}/", "socket=127.0.0.1:8888", "x//socket=127.0.0.1:1", "popen//chdir=/",
    "x//via=y", "x//env:LD_PRELOAD=/tmp/x.so", "//", "../../etc/passwd", "~root", "${IFS}x", "a" * 20_000, "''", "\\",
    "\x1b[2J", "\u202e\u2066x", "\U0001f600", "%n%s%x", "{0.__class__}",
]  # fmt: skip
WAY_KEYS = frozenset().union(
    *(ACCESS_METHODS[name].keys for name in ACCESS_METHODS if ACCESS_METHODS[name].in_inventory)
)
GOOD = {
    "testbed": {"client": "alpha", "server": "beta"},
    "host": {"way": "ssh", "ssh": "beta", "ipv4": "192.0.2.2", "ipv6": "2001:db8::2"},
    "lab": {},
}
KEYS = [
    *(("host", key) for key in sorted(HOST_KEYS | WAY_KEYS)), *(("testbed", key) for key in sorted(TESTBED_KEYS)),
    *(("lab", key) for key in sorted(LAB_KEYS)),
]  # fmt: skip
hostile = st.sampled_from(HOSTILE) | st.text(max_size=40) | st.text("$`;|&<>-=/'\"\\ ()xy\t", max_size=40)


def inventory(folder, kind, key, value):
    """With this value in a section of that kind."""
    sections = {name: dict(keys) for name, keys in GOOD.items()}
    sections[kind][key] = value
    names = {"testbed": "testbed bed", "host": "host beta", "lab": "lab mine"}
    text = "[host alpha]\nipv4 = 192.0.2.1\nipv6 = 2001:db8::1\n"
    for name, keys in sections.items():
        text += f"[{names[name]}]\n" + "".join(f"{each} = {said}\n" for each, said in keys.items())
    path = folder / "hosts.ini"
    path.write_text(text, encoding="utf-8", errors="replace", newline="")
    return path


def read(folder, kind, key, value):
    """The testbeds, or None where the value is refused in one sentence."""
    path = inventory(folder, kind, key, value)
    try:
        return read_inventory(path)
    except UsageError as error:
        sentence = str(error)
    assert sentence.startswith(f"{path}, line ")
    assert sentence.isprintable(), sentence
    return None


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("hostile")


def check(host):
    """What is started for a host is words for a program, and words for a shell that are no more than words there."""
    way = ACCESS_METHODS[host.way]
    if host.way != "ssh":
        return
    spec = dict(way.spec(host.settings, ()))
    assert set(spec) <= {"ssh", "python", "ssh_config"}
    argv = way.command(host.settings, ())
    *before, there = argv
    assert before[0] == "ssh"
    # The line is silent; what a question to ssh says is reported.
    options = [word.replace("LogLevel=QUIET", "LogLevel=ERROR") for word in shlex.split(str(spec["ssh"]))]
    assert before[-len(options) :] == options  # execnet splits them as a shell would, and comes to the same
    target = options[-1]
    assert not target.startswith("-")
    assert not set(target) & set(" $`;|&<>()'\"\\\n\t")
    python = shlex.split(there)
    assert python[1:3] == ["-I", "-c"]
    assert len(python) == 4
    assert shlex.split(str(spec["python"])) == python[:2]
    assert not python[0].startswith("-")


@pytest.mark.parametrize(("kind", "key"), KEYS)
def test_a_hostile_value_is_refused_or_harmless(folder, kind, key):
    for value in HOSTILE:
        if found := read(folder, kind, key, value):
            for host in found["bed"].hosts:
                check(host)


@settings(max_examples=400)
@given(st.sampled_from(KEYS), hostile)
def test_any_text_is_refused_or_harmless(folder, place, value):
    if found := read(folder, place[0], place[1], value):
        for host in found["bed"].hosts:
            check(host)


@settings(max_examples=100)
@given(st.text(st.characters(exclude_characters="\n\r"), max_size=30), st.sampled_from(["host", "testbed", "lab", ""]))
def test_any_name_of_a_section_is_refused_or_a_name(folder, name, kind):
    path = folder / "hosts.ini"
    path.write_text(f"[{kind} {name}]\n", encoding="utf-8", errors="replace")
    found, sentence = {}, ""
    try:
        found = read_inventory(path)
    except UsageError as error:
        sentence = str(error)
    assert sentence.isprintable()
    assert all(re.fullmatch(r"[A-Za-z0-9_.]+", each) for each in found)


# --- the gateway ----------------------------------------------------------------------------------------------------


class StoppedError(Exception):
    """Before anything is started."""


@pytest.fixture
def specs(monkeypatch):
    """What execnet is asked for."""
    asked: list[Any] = []

    def stop(spec, execmodel):
        del execmodel
        asked.append(spec)
        raise StoppedError

    monkeypatch.setattr(client_module, "create_io", stop)
    for way in ACCESS_METHODS:
        monkeypatch.setattr(ACCESS_METHODS[way], "diagnosis", lambda *_: "it was stopped")
    return asked


def asked_of(specs, host):
    specs.clear()
    with pytest.raises(Exception, match="it was stopped"):
        AgentClient(host)
    (spec,) = specs
    return spec


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.sampled_from([each for each in KEYS if each[0] == "host"]), hostile)
def test_whatever_is_written_execnet_is_asked_for_a_pipe_or_for_ssh(folder, specs, place, value):
    found = read(folder, place[0], place[1], value)
    for host in found["bed"].hosts if found else ():
        spec = asked_of(specs, host)
        assert (spec.socket, spec.via, spec.chdir, spec.nice, spec.env) == (None, None, None, None, {})
        assert bool(spec.popen) != bool(spec.ssh)


@pytest.mark.parametrize("name", list(ACCESS_METHODS))
def test_no_way_has_a_key_of_execnet_s_own(name):
    """Beside `ssh`, `python` and `ssh_config`, which mean the same here and are looked at."""
    assert not ACCESS_METHODS[name].keys & {
        "socket",
        "via",
        "installvia",
        "chdir",
        "nice",
        "env",
        "popen",
        "execmodel",
        "id",
    }


@pytest.mark.parametrize("key", ["socket", "via", "chdir", "nice", "env:X", "popen", "installvia", "execmodel"])
def test_a_key_of_execnet_is_unknown_to_the_inventory(folder, key):
    with pytest.raises(UsageError, match=rf"key '{key.lower()}' is unknown"):
        read_inventory(inventory(folder, "host", key, "127.0.0.1:8888"))


def test_a_community_is_in_no_record(folder, tmp_path):
    testbed = read_inventory(inventory(folder, "host", "snmp", "confidential@192.0.2.9"))["bed"]
    journal = EventLog(tmp_path, "main")
    journal.append("complete", {"testbed": testbed})
    journal.close()
    journal = (tmp_path / "main.jsonl").read_text()
    assert "...@192.0.2.9" in journal
    assert "confidential" not in journal + repr(testbed)


@pytest.mark.host
def test_a_host_that_asks_for_code_to_be_run_here_is_refused(tmp_path):
    """Messages of execnet are the same in both directions, and one of them means: run this."""
    canary = tmp_path / CANARY
    source = dumps_internal((f"import pathlib; pathlib.Path({str(canary)!r}).touch()", "<hostile>", None, {}))
    with AgentClient(BUILTIN["loopback"].server) as agent:
        gateway = agent._channel.gateway
        answered = []
        gateway._send = lambda code, *_: answered.append(code)
        Message(Message.CHANNEL_EXEC, 99, source).received(gateway)
        del gateway._send
        agent.hello()
    assert answered == [Message.CHANNEL_CLOSE_ERROR]
    assert not canary.exists()


# --- for real -------------------------------------------------------------------------------------------------------

TRIES = """
import json
from pathlib import Path
from pytest_ipperf.core.portable.errors import AgentError, UsageError
from pytest_ipperf.lab.agents import client as client_module
from pytest_ipperf.lab.inventory import read_inventory
client_module._START_S = 5.0
for key, value in {tries!r}:
    before, head, after = Path({inventory!r}).read_text().partition("[host client1]\\n")
    own, gap, rest = after.partition("\\n\\n")
    lines = dict(line.split(" = ", 1) for line in own.splitlines())
    lines[key] = value
    path = Path("hosts-tried.ini")
    path.write_text(before + head + "\\n".join(f"{{each}} = {{said}}" for each, said in lines.items()) + gap + rest)
    try:
        with client_module.AgentClient(read_inventory(path)["bed1"].client) as opened:
            said = opened.hello().host
    except (UsageError, AgentError) as error:
        said = str(error)
    print(json.dumps([key, value, said]), flush=True)
    path.unlink()
"""


def canaries(stands):
    return [path for path in stands.folder.rglob(f"*{CANARY}*") if "session" not in path.name]


def tried(stands, tries):
    code = TRIES.format(tries=tries, inventory=str(stands.inventory))
    return [
        json.loads(line) for line in stands.python(f"import os; os.chdir({str(stands.folder)!r})\n{code}").splitlines()
    ]


@pytest.mark.host
def test_hostile_values_execute_nothing_on_a_real_host(farm):
    stands = farm()
    tries = [(key, value) for key in ("ssh", "python", "ssh_config") for value in HOSTILE if len(value) < 100]
    tries += [(key, value) for key, value in tries if " " in value for value in [value.replace(" ", "${IFS}")]]
    said = tried(stands, tries)
    assert len(said) == len(tries)
    assert not [each for each in said if each[2] == "client1"]
    assert canaries(stands) == []


@pytest.mark.host
def test_what_is_executed_would_be_seen(farm):
    """Or the test above would prove nothing: here by a configuration of ssh, which is trusted."""
    stands = farm()
    config = stands.folder / "evil_config"
    config.write_text(f"Host *\n    ProxyCommand touch {stands.folder}/{CANARY}\n")
    tried(stands, [("ssh_config", str(config))])
    assert canaries(stands)
