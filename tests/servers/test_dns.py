"""Real name servers: their answers, their users, and bursts of look-ups without losses."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import socket
import struct
import subprocess
import sys
import tempfile
import time
from array import array
from pathlib import Path

import pytest

from pytest_ipperf.agent.host_state.private_dir import private_folder
from pytest_ipperf.agent.load import library_client
from pytest_ipperf.agent.load.runner import load
from pytest_ipperf.agent.load.spec import LoadSpec
from pytest_ipperf.agent.servers.server_process import ServerProcess
from pytest_ipperf.agent.sockets.ports import free_port
from pytest_ipperf.core.portable import dns
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.protocols import application
from pytest_ipperf.protocols.base import PHASES
from pytest_ipperf.servers import SERVERS, bind
from pytest_ipperf.servers.base import Site, true_root
from tests.support.servers.tcp import family_of
from tests.support.servers.udp import DatagramServer

ROOT = Path(__file__).parents[2]
ADDRESSES = ("127.0.0.1", "::1")
HOST = application("dns").host
ONLY_IPV4 = "four.ipperf.test"
ZONE = {HOST: ADDRESSES, ONLY_IPV4: ("192.0.2.1", "192.0.2.2"), "elsewhere.example": ("192.0.2.3",)}
SITE = Site("/site", ADDRESSES, 20053, 100, zone=ZONE)
NAMES = ["bind", "nameserver"]
NOTHING = ServerState()

every_server = pytest.mark.parametrize("name", NAMES)
both_families = pytest.mark.parametrize("address", ADDRESSES)
both_clients = pytest.mark.parametrize("client", ["lean", "library"])


@contextlib.contextmanager
def running(name, zone=ZONE, state=NOTHING):
    recipe = SERVERS[name]
    if missing := recipe.missing():
        pytest.skip(f"{name} cannot run here: {missing}")
    with private_folder() as folder:
        port = free_port(ADDRESSES, 20000, 29999, random.Random())
        site = dataclasses.replace(SITE, folder=str(folder / name), port=port, connections=1000, zone=zone, state=state)
        instance = ServerProcess(recipe, site)
        instance.start()
        try:
            yield site
        finally:
            instance.stop()


@pytest.fixture(scope="module")
def ports():
    """Return the ports of all name servers, by name."""
    with contextlib.ExitStack() as stack:
        usable = [name for name in NAMES if not SERVERS[name].missing()]
        yield {name: stack.enter_context(running(name)).port for name in usable}


def port_of(name, ports):
    if name not in ports:
        pytest.skip(f"{name} cannot run here: {SERVERS[name].missing()}")
    return ports[name]


def ask(address, port, query, kind=socket.SOCK_DGRAM):
    with socket.socket(family_of(address), kind) as sock:
        sock.settimeout(30)
        sock.connect((address, port))
        if kind == socket.SOCK_STREAM:
            sock.sendall(struct.pack("!H", len(query)) + query)
            with sock.makefile("rb") as stream:
                return stream.read(struct.unpack("!H", stream.read(2))[0])
        sock.sendall(query)
        return sock.recv(4096)


def looked_up(client, address, port, n, payload=34, **settings):
    spec = LoadSpec(
        protocol="dns", client=client, payload_bytes=payload, connections=n, bursts=1,
        ipver=6 if ":" in address else 4, resolver="", resolver_port=0, name=address, port=port, source=address,
        deadline_s=20.0, ident=0, **settings,
    )  # fmt: skip
    return load(spec)


# --- what they answer ------------------------------------------------------------------------------------------------


@every_server
@both_families
@pytest.mark.parametrize(
    ("asked", "rtype", "found"),
    [
        (HOST, dns.TYPE_A, ("127.0.0.1",)),
        (HOST, dns.TYPE_AAAA, ("::1",)),
        (HOST.upper(), dns.TYPE_AAAA, ("::1",)),
        (ONLY_IPV4, dns.TYPE_A, ("192.0.2.1", "192.0.2.2")),
        (ONLY_IPV4, dns.TYPE_AAAA, f"expected AAAA of no address for {ONLY_IPV4}, seen no record"),
        ("elsewhere.example", dns.TYPE_A, ("192.0.2.3",)),
        ("nowhere.ipperf.test", dns.TYPE_A, "NXDOMAIN"),
        ("example.org", dns.TYPE_A, "NXDOMAIN"),
    ],
)
def test_the_zone_is_all_there_is(name, address, ports, *, asked, rtype, found):
    response = ask(address, port_of(name, ports), dns.query(asked, rtype, 7))
    expected = () if isinstance(found, str) else found
    answer = dns.answer(response, dns.question(asked, rtype), expected)
    assert (answer.address, answer.trouble) == ((*expected, "")[0], "" if expected else found)
    ident, flags = struct.unpack_from("!HH", response)
    assert (ident, flags & 0xFFF0) == (7, 0x8500)  # authoritative, whole, and without an offer to ask others


@both_families
@pytest.mark.parametrize("size", [0, 49, 128, 1232, 65_000])
def test_bind_answers_padded_queries_with_records_of_no_age(address, size, ports):
    """The largest query shows that a path carries a full-size packet."""
    rtype = dns.record_type(6 if ":" in address else 4)
    query = dns.query(HOST, rtype, 7, size=size)
    response = ask(address, port_of("bind", ports), query)
    packed = socket.inet_pton(family_of(address), address)
    assert struct.pack("!HHHIH", 0xC00C, rtype, 1, 0, len(packed)) + packed in response
    assert len(response) < 100  # nothing but the answer: neither the zone's servers nor their addresses


@both_families
def test_bind_answers_by_tcp_too(address, ports):
    response = ask(address, port_of("bind", ports), dns.query(HOST, dns.TYPE_A, 7), socket.SOCK_STREAM)
    assert dns.answer(response, dns.question(HOST, dns.TYPE_A), ("127.0.0.1",)) == dns.DnsAnswer("127.0.0.1")


# --- look-ups measured ------------------------------------------------------------------------------------------------


@every_server
@both_clients
@both_families
def test_every_look_up_of_a_burst_completes(name, client, address, ports):
    port = port_of(name, ports)
    for n, payload in ((1, 34), (1000, 128)):
        told = looked_up(client, address, port, n, payload)
        assert (told.attempted, told.failed) == (n, {})
        assert told.peers == {address: n}
        assert told.sources == [address]
        assert told.families == [family_of(address).name]
        values = array("d", told.rows)
        for at in range(0, len(values), len(PHASES)):
            row = dict(zip(PHASES, values[at : at + len(PHASES)], strict=True))
            assert row["dns"] == row["connect"] == 0
            assert 0 < row["first_byte"] <= row["total"] < 20


@both_clients
@both_families
def test_a_name_that_is_not_there_is_a_failure_by_its_kind(client, address):
    with running("nameserver", zone={ONLY_IPV4: ("192.0.2.1",)}) as site:
        assert looked_up(client, address, site.port, 20).failed == {"protocol: NXDOMAIN": 20}


@both_clients
@both_families
def test_where_nobody_listens_look_ups_are_refused(client, address):
    told = looked_up(client, address, free_port([address], 20000, 29999, random.Random()), 5)
    assert told.failed == {"talk refused": 5}


@both_families
def test_the_library_client_repeats_a_query_that_was_lost(address, monkeypatch):
    monkeypatch.setattr(library_client, "RETRY_S", (0.05, 0.05))

    def deaf_at_first(query, number):
        if number == 1:
            yield b"\0\0" + query[2:]  # an answer to nobody's question
        if number == 2:
            rtype, packed = dns.record_type(6 if ":" in address else 4), socket.inet_pton(family_of(address), address)
            record = struct.pack("!HHHIH", 0xC00C, rtype, 1, 0, len(packed)) + packed
            yield query[:2] + struct.pack("!5H", 0x8400, 1, 1, 0, 0) + query[12:] + record

    with DatagramServer(address, deaf_at_first) as server:
        told = looked_up("library", address, server.port, 1, first_index=9)
    assert (told.failed, told.dns_retries) == ({}, 2)
    assert server.heard == [server.heard[0]] * 3
    assert server.heard[0][:2] == b"\0\x09"


# --- BIND as an instance ----------------------------------------------------------------------------------------------


def test_bind_writes_nothing_and_becomes_another_user_than_root():
    with running("bind") as site:
        assert list(Path(site.folder, "run").iterdir()) == []
        names = {path.name for path in Path(site.folder).iterdir()}
        assert names == {"log", "named.conf", "run", "zones"}
        owner = Path(site.folder, "run").stat().st_uid
        found = [
            Path(f"/proc/{pid}").stat().st_uid
            for pid in filter(str.isdecimal, os.listdir("/proc"))  # noqa: PTH208 - names alone
            if site.folder.encode() in _command(pid) and _command(pid).split(b"\0")[0].endswith(b"named")
        ]
    assert found == [owner]
    assert not (true_root() and bind._user()) or owner != 0


def _command(pid):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


UNPRIVILEGED = """
import os, random, sys
from pytest_ipperf.agent.servers.server_process import ServerProcess
from pytest_ipperf.agent.sockets.ports import free_port
from pytest_ipperf.agent.host_state.private_dir import private_folder
from pytest_ipperf.servers import SERVERS
from pytest_ipperf.servers.base import Site
both = ("127.0.0.1", "::1")
with private_folder() as folder:
    port = free_port(both, 20000, 29999, random.Random())
    instance = ServerProcess(SERVERS["bind"], Site(str(folder / "bind"), both, port, 10, zone={"a.test": both}))
    instance.start()
    instance.stop()
    print("ready as", os.geteuid())
"""


def test_bind_runs_for_a_user_without_rights():
    if missing := SERVERS["bind"].missing():
        pytest.skip(f"bind cannot run here: {missing}")
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"] if os.geteuid() == 0 else []
    if subprocess.run([*user, sys.executable, "-c", "pass"], check=False, capture_output=True, cwd="/").returncode:
        pytest.skip("this Python may not be run by a user without rights")
    with tempfile.TemporaryDirectory(prefix="pytest-ipperf-user-") as folder:
        Path(folder).chmod(0o777)
        copied = subprocess.run(["cp", "-r", ROOT / "pytest_ipperf", folder], check=False)
        assert copied.returncode == 0
        env = {**os.environ, "TMPDIR": folder, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            [*user, sys.executable, "-c", UNPRIVILEGED],
            capture_output=True,
            text=True,
            check=False,
            env=env,
            cwd=folder,
        )
    assert done.stdout == f"ready as {65534 if user else os.geteuid()}\n", done.stderr


# --- what its recipe tells --------------------------------------------------------------------------------------------


def configuration(site, version="9.18.49"):
    return bind.server.configuration(site, version)


def test_bind_listens_on_the_given_addresses_only():
    both = configuration(SITE)
    assert "listen-on port 20053 { 127.0.0.1; };" in both
    assert "listen-on-v6 port 20053 { ::1; };" in both
    six = configuration(dataclasses.replace(SITE, addresses=("2001:2::2",)))
    assert "listen-on port 20053 { none; };" in six
    assert "listen-on-v6 port 20053 { 2001:2::2; };" in six


def test_bind_has_a_view_of_the_zone_for_each_address():
    site = dataclasses.replace(SITE, addresses=("192.0.2.1", "2001:2::1", "2001:2::2"))
    views = [line for line in configuration(site).splitlines() if line.startswith("view ")]
    assert views == [
        f'view "{each}" {{ match-destinations {{ {each}; }}; '
        f'zone "." {{ type primary; file "/site/zones/{each}"; }}; }};'
        for each in site.addresses
    ]
    zone = bind.zone_text(dataclasses.replace(site, zone={"a.test": site.addresses}), "2001:2::2").splitlines()
    assert [line for line in zone if line.startswith("a.")] == ["a.test. IN A 192.0.2.1", "a.test. IN AAAA 2001:2::2"]


@pytest.mark.parametrize(
    ("version", "known"), [("9.16.50", False), ("9.18.49", True), ("9.20.1", True), ("10.0", True)]
)
def test_bind_is_given_large_buffers_where_it_knows_the_option(version, known):
    assert ("udp-receive-buffer 8388608;" in configuration(SITE, version)) == known


def test_the_zone_holds_each_address_once():
    lines = bind.zone_text(dataclasses.replace(SITE, zone={"a.test": ("192.0.2.1", "192.0.2.1")}), "::1").splitlines()
    assert lines.count("a.test. IN A 192.0.2.1") == 1
    assert "ns.ipperf.test. IN AAAA ::1" in lines


@pytest.mark.parametrize(
    ("enabled", "own", "profile", "disabled", "confined"),
    [
        ("Y", "unconfined", True, False, True),
        ("N", "unconfined", True, False, False),
        ("", "unconfined", True, False, False),
        ("Y", "container-default (enforce)", True, False, False),
        ("Y", "unconfined", False, False, False),
        ("Y", "unconfined", True, True, False),
    ],
)
def test_a_profile_that_would_stop_bind_is_told(tmp_path, monkeypatch, *, enabled, own, profile, disabled, confined):
    for name, path, content in (("_APPARMOR_ON", "enabled", enabled), ("_OWN_PROFILE", "own", own)):
        monkeypatch.setattr(bind, name, tmp_path / path)
        if content:
            (tmp_path / path).write_text(content + "\n")
    monkeypatch.setattr(bind, "_PROFILES", tmp_path / "profiles")
    (tmp_path / "profiles/disable").mkdir(parents=True)
    for there, folder in ((profile, "profiles"), (disabled, "profiles/disable")):
        if there:
            (tmp_path / folder / "usr.sbin.named").touch()
    monkeypatch.setattr(bind, "program", lambda _: "/usr/sbin/named")
    sentence = f"AppArmor keeps named to folders of its own (as root: aa-disable {tmp_path}/profiles/usr.sbin.named)"
    assert SERVERS["bind"].missing() == (sentence if confined else "")


def test_bind_that_is_not_there_is_told_with_its_package(monkeypatch):
    monkeypatch.setattr(bind, "program", lambda _: "")
    assert SERVERS["bind"].missing() == "named is not installed (Debian: apt-get install bind9)"


@both_families
def test_a_forwarder_keeps_what_it_has_fetched_and_fetches_what_it_was_never_asked(address):
    """A record from the cache has a lower TTL than one that was just fetched."""
    state = ServerState(texts={"*.load.ipperf.test": b"text"})
    with running("bind_forwarder", state=state) as site:

        def ttl_s(name):
            response = ask(address, site.port, dns.edns_query(name, dns.TYPE_TXT))
            assert dns.records_answer(response, dns.question(name, dns.TYPE_TXT), [b"\x04text"], 3600).trouble == ""
            return struct.unpack_from("!I", response, len(dns.edns_query(name, dns.TYPE_TXT)) + 6)[0]

        assert ttl_s("one.load.ipperf.test") == 3600
        time.sleep(1.2)
        assert ttl_s("one.load.ipperf.test") < 3600
        assert ttl_s("two.load.ipperf.test") == 3600
        looked_up_there = ask(address, site.port, dns.query(HOST, dns.TYPE_A, 7))
        assert dns.answer(looked_up_there, dns.question(HOST, dns.TYPE_A), ("127.0.0.1",)).trouble == ""


@both_families
@pytest.mark.parametrize("name", ["bind", "nameserver"])
@pytest.mark.parametrize("size", [1, 255, 256, 900, 5000])
def test_texts_are_served_whole_or_truncated(name, address, size):
    text = b'q"\\' + b"x" * size if name == "bind" else b"x" * size
    state = ServerState(texts={"*.load.ipperf.test": text, "exact.ipperf.test": b"exact"})
    with running(name, state=state) as site:
        for asked, found in (("a.load.ipperf.test", text), ("EXACT.ipperf.test", b"exact")):
            question, query = dns.question(asked, dns.TYPE_TXT), dns.edns_query(asked, dns.TYPE_TXT, 1232)
            whole = ask(address, site.port, query, socket.SOCK_STREAM)
            assert dns.records_answer(whole, question, [dns.text_data(found)]).trouble == ""
            cut = ask(address, site.port, query)
            trouble = dns.records_answer(cut, question, [dns.text_data(found)]).trouble
            assert trouble == ("truncated" if len(whole) > 1232 else "")
            assert len(cut) <= 1232
