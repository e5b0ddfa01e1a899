"""Promises of every recipe, and special texts of some; no server is started here."""

from __future__ import annotations

import dataclasses
import importlib
import json
import random
import socket
import struct
from pathlib import PurePosixPath

import pytest

from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.servers import SERVERS
from pytest_ipperf.servers.apache import server as apache
from pytest_ipperf.servers.base import Site, program, words
from pytest_ipperf.servers.nameserver import answers, reply
from pytest_ipperf.servers.postfix import server as postfix

SITE = Site(
    folder="/nowhere/site",
    addresses=("127.0.0.1", "::1"),
    port=20025,
    connections=100,
    state=ServerState(b"<html></html>\n"),
    zone={"www.ipperf.test": ("127.0.0.1", "::1"), "four.ipperf.test": ("127.0.0.1", "127.0.0.2")},
)
every_recipe = pytest.mark.parametrize("name", list(SERVERS))


@every_recipe
def test_is_named_as_its_module_and_described(name):
    recipe = SERVERS[name]
    assert recipe.name == name
    assert recipe.__class__.__doc__
    assert importlib.import_module(f"pytest_ipperf.servers.{name}").__doc__
    assert recipe.protocol
    assert recipe.embedded or not recipe.packages


@every_recipe
def test_knows_what_readiness_is(name):
    said, expected = SERVERS[name].probe
    assert isinstance(said, bytes)
    assert expected or name == "null"


@pytest.mark.host  # some ask their program for its version
@every_recipe
def test_says_why_it_cannot_run_as_the_end_of_a_sentence(name):
    missing = SERVERS[name].missing()
    assert missing == missing.strip().rstrip(".")
    assert "\n" not in missing


@pytest.mark.host
@every_recipe
def test_lays_out_parents_first_and_stays_in_its_folder(name):
    seen = {PurePosixPath(".")}
    try:
        entries = SERVERS[name].entries(SITE)
    except KeyError:  # of a user, whom the package makes
        missing = SERVERS[name].missing()
        assert missing
        pytest.skip(f"{name} cannot run here: {missing}")
    for entry in entries:
        path = PurePosixPath(entry.path)
        assert not path.is_absolute()
        assert ".." not in path.parts
        assert path.parent in seen
        seen.add(path)


@every_recipe
def test_command(name):
    recipe = SERVERS[name]
    argv = list(recipe.argv(SITE))
    if recipe.embedded:
        assert argv[:3] == ["python", "-m", f"pytest_ipperf.servers.{name}"]
        config = json.loads(argv[3])
        assert (config["addresses"], config["port"]) == (["127.0.0.1", "::1"], 20025)
    else:
        assert recipe.apt
        assert argv[0].startswith("/") or not program(argv[0])


@pytest.mark.host
@every_recipe
def test_tells_its_version_where_it_can_run(name):
    recipe = SERVERS[name]
    if not recipe.missing():
        assert any(character.isdigit() for character in recipe.version())


@every_recipe
def test_is_quiet_where_nothing_runs(name):
    assert SERVERS[name].busy(SITE) == ""


@pytest.mark.host
def test_a_command_that_fails_has_no_words():
    assert words("false") == ""
    assert words("/nowhere/program") == ""
    assert program("no-such-program", "sh").endswith("/sh")
    assert program("no-such-program") == ""


def _file(recipe, path, site=SITE):
    return next(entry.content for entry in recipe.entries(site) if entry.path == path).decode()


def test_postfix_is_no_open_relay():
    main, master = _file(postfix, "etc/main.cf"), _file(postfix, "etc/master.cf")
    transports = [line.split(" = ")[1] for line in main.splitlines() if "_transport = " in line]
    assert transports == ["discard:"] * 4
    services = [line.split() for line in master.splitlines() if line]
    assert {service[-1] for service in services}.isdisjoint({"smtp", "lmtp", "local", "virtual", "pipe"})
    assert [service[0] for service in services if service[1] == "inet"] == ["127.0.0.1:20025", "[::1]:20025"]


def test_postfix_takes_all_connections_at_once():
    site = dataclasses.replace(SITE, connections=500)
    assert "default_process_limit = 550\n" in _file(postfix, "etc/main.cf", site)
    assert "127.0.0.1:20025 inet n - n - 550 smtpd\n" in _file(postfix, "etc/master.cf", site)


def test_postfix_with_one_family_only():
    main = _file(postfix, "etc/main.cf", dataclasses.replace(SITE, addresses=("2001:2::2",)))
    assert "inet_interfaces = 2001:2::2\ninet_protocols = ipv6\n" in main


def test_postfix_counts_what_is_queued(tmp_path):
    for queue in ("incoming", "deferred/A"):
        (tmp_path / "queue" / queue).mkdir(parents=True)
    site = dataclasses.replace(SITE, folder=str(tmp_path))
    (tmp_path / "queue/incoming/1").touch()
    assert postfix.busy(site) == "1 message in the queue"
    (tmp_path / "queue/deferred/A/A2").touch()
    assert postfix.busy(site) == "2 messages in the queue"


TRACE = (b"Received: from client (unknown [198.18.0.1])", b"\tby mail", b" id 8.1")


def _record(kind, value):
    """Write a record of a queue file, with its length in groups of seven bits."""
    length, coded = len(value), b""
    while length >= 0x80:
        coded += bytes([0x80 | length & 0x7F])
        length >>= 7
    return kind + coded + bytes([length]) + value


def _queue_file(lines, *, sized=True, extracted=b""):
    """Write a queue file of Postfix as its cleanup(8) does."""
    envelope = _record(b"T", b"1795741716 802038") + _record(b"S", b"client-0000000206@ipperf.test")
    envelope += _record(b"A", b"M" * 300) + _record(b"M", b"")
    begins = len(_record(b"C", b" " * 95)) + len(envelope)
    sizes = b"%15d %15d %15d %15d %15d %15d" % (1205, begins if sized else 0, 1, 0, 1205, 0)
    message = b"".join(_record(b"L" if part.endswith(b"\\") else b"N", part) for part in lines)
    return _record(b"C", sizes) + envelope + message + _record(b"X", b"") + extracted + _record(b"E", b"")


@pytest.mark.parametrize("sized", [True, False])
@pytest.mark.parametrize(
    "lines",
    [
        (*TRACE, b"Subject: a", b"", b"one", b"N" * 1000, b"", b"  indented"),
        (*TRACE, b"Subject: a", b"", b"one", b"N" * 1000, b"", b"  inverted"),  # of the same length
        (b"", b"no header"),
        (b"Received: " + b"f" * 200, b" goes on", b"", b"Received: no header"),
        (b"a long\\", b" line\\", b" in parts", b""),
        (*TRACE, b"", *[b"x" * 100] * 1000),  # of more than one read
        TRACE,
    ],
)
def test_postfix_shows_each_message_as_its_file_holds_it(tmp_path, lines, sized):
    hold = tmp_path / "queue/hold"
    hold.mkdir(parents=True)
    for name in ("A", "B"):
        (hold / name).write_bytes(_queue_file(lines, sized=sized))
    kept = _kept_by_postfix(tmp_path)
    assert [each.path for each in kept] == [str(hold / name) for name in ("A", "B")]
    assert {each.sender for each in kept} == {"client-0000000206@ipperf.test"}
    expected = b"".join(line if line.endswith(b"\\") else line + b"\n" for line in lines)
    assert [postfix.message(each) for each in kept] == [expected] * 2
    changed = expected[:-2] + b"?" + expected[-1:]
    (hold / "A").write_bytes(_queue_file([*lines[:-1], lines[-1][:-1] + b"?"] if lines[-1] else lines, sized=sized))
    assert postfix.message(_kept_by_postfix(tmp_path)[0]) == (changed if lines[-1] else expected)


def _kept_by_postfix(folder):
    """Return the messages in its queue, by name."""
    return sorted(postfix.kept(dataclasses.replace(SITE, folder=str(folder))), key=lambda each: each.path)


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_postfix_shows_a_message_whole_whose_file_is_as_long_as_what_is_read_at_once(tmp_path, more):
    hold = tmp_path / "queue/hold"
    hold.mkdir(parents=True)
    lines = [b"Subject: a", b"", *[b"x" * 100] * 30, b"y" * 200]
    lines[-1] += b"y" * (4096 + more - len(_queue_file(lines)))
    (hold / "A").write_bytes(_queue_file(lines))
    assert (hold / "A").stat().st_size == 4096 + more
    assert postfix.message(*_kept_by_postfix(tmp_path)) == b"".join(line + b"\n" for line in lines)


def test_postfix_finds_a_message_whose_file_names_a_wrong_place(tmp_path):
    hold = tmp_path / "queue/hold"
    hold.mkdir(parents=True)
    whole = _queue_file([*TRACE, b"", b"text"])
    for sizes in (b"%15d" % 3, b"%15d" % 10**9, b"%15d" % (len(whole) - 3)):
        (hold / "A").write_bytes(whole[:18] + sizes + whole[33:])
        assert postfix.message(*_kept_by_postfix(tmp_path)).endswith(b" id 8.1\n\ntext\n")


def test_apache_listens_on_the_given_addresses_only():
    lines = _file(apache, "httpd.conf").splitlines()
    assert [line for line in lines if line.startswith("Listen ")] == ["Listen 127.0.0.1:20025", "Listen [::1]:20025"]
    assert _file(apache, "htdocs/index.html") == "<html></html>\n"


@pytest.mark.parametrize(("connections", "workers"), [(1, 64), (100, 192), (5000, 512)])
def test_apache_has_threads_for_its_connections_up_to_a_limit(connections, workers):
    configuration = _file(apache, "httpd.conf", dataclasses.replace(SITE, connections=connections))
    assert f"\nMaxRequestWorkers {workers}\n" in configuration


KNOWN = answers(SITE.zone)
A, AAAA, HTTPS = 1, 28, 65


def _query(name, rtype, flags=0x0100, questions=1):
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"
    return struct.pack("!6H", 0xBEEF, flags, questions, 0, 0, 0) + labels + struct.pack("!HH", rtype, 1)


def _records(response, query):
    at, found = len(query), []
    while at < len(response):
        pointer, rtype, rclass, ttl, length = struct.unpack_from("!HHHIH", response, at)
        assert (pointer, rclass, ttl) == (0xC00C, 1, 0)
        found.append((rtype, response[at + 12 : at + 12 + length]))
        at += 12 + length
    return found


@pytest.mark.parametrize(
    ("name", "rtype", "addresses"),
    [
        ("www.ipperf.test", A, ["127.0.0.1"]),
        ("www.ipperf.test", AAAA, ["::1"]),
        ("wWw.iPPerf.TEST", AAAA, ["::1"]),
        ("four.ipperf.test", A, ["127.0.0.1", "127.0.0.2"]),
        ("four.ipperf.test", AAAA, []),
        ("www.ipperf.test", HTTPS, []),
    ],
)
def test_nameserver_answers_a_known_name(name, rtype, addresses):
    query = _query(name, rtype)
    response = reply(query, KNOWN)
    assert struct.unpack_from("!6H", response) == (0xBEEF, 0x8500, 1, len(addresses), 0, 0)
    assert response[12 : len(query)] == query[12:]
    family = socket.AF_INET6 if rtype == AAAA else socket.AF_INET
    assert _records(response, query) == [(rtype, socket.inet_pton(family, address)) for address in addresses]


def test_nameserver_knows_no_other_name():
    query = _query("nowhere.ipperf.test", A, flags=0)
    assert reply(query, KNOWN) == struct.pack("!6H", 0xBEEF, 0x8403, 1, 0, 0, 0) + query[12:]


def test_nameserver_ignores_edns():
    query = _query("www.ipperf.test", A)
    padded = query[:11] + b"\1" + query[12:] + b"\0" + struct.pack("!HHIHHH", 41, 4096, 0, 204, 12, 200) + bytes(200)
    assert reply(padded, KNOWN) == reply(query, KNOWN)


@pytest.mark.parametrize(
    ("query", "flags"),
    [
        (_query("www.ipperf.test", A, questions=2), 0x8101),
        (_query("www.ipperf.test", A, questions=0), 0x8101),
        (_query("www.ipperf.test", A)[:-1], 0x8101),
        (_query("www.ipperf.test", A)[:-4], 0x8101),
        (_query("www.ipperf.test", A)[:20], 0x8101),
        (_query("www.ipperf.test", A)[:12], 0x8101),
        (struct.pack("!6H", 0xBEEF, 0x0100, 1, 0, 0, 0) + b"\xc0\x0c\0\1\0\1", 0x8101),
        (_query("www.ipperf.test", A, flags=0x2100), 0xA104),
    ],
)
def test_nameserver_refuses_what_is_no_query(query, flags):
    assert reply(query, KNOWN) == struct.pack("!6H", 0xBEEF, flags, 0, 0, 0, 0)


def test_nameserver_never_answers_an_answer():
    assert reply(_query("www.ipperf.test", A, flags=0x8500), KNOWN) == b""
    assert reply(b"", KNOWN) == b""
    assert reply(bytes(11), KNOWN) == b""


def test_nameserver_survives_anything():
    rng = random.Random(1)
    query = _query("www.ipperf.test", A)
    for _ in range(5000):
        broken = bytearray(query[: rng.randrange(len(query) + 1)])
        for _ in range(min(len(broken), rng.randrange(8))):
            broken[rng.randrange(len(broken))] = rng.randrange(256)
        response = reply(bytes(broken), KNOWN)
        assert response == b"" or response[:2] == broken[:2]
