"""Every server for real, on 127.0.0.1 and ::1, from its start until nothing is left."""

from __future__ import annotations

import contextlib
import http.client
import os
import random
import smtplib
import socket
import struct
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pytest_ipperf.agent.host_state.private_dir import private_folder
from pytest_ipperf.agent.servers.server_process import ServerProcess
from pytest_ipperf.agent.sockets.ports import free_port
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.servers import SERVERS
from pytest_ipperf.servers.base import Site, program, true_root

ADDRESSES = ("127.0.0.1", "::1")
PAGE = b"<html><body>" + b"x" * 10_000 + b"</body></html>\n"
ZONE = {"www.ipperf.test": ("127.0.0.1", "::1")}
MESSAGE = b"Subject: test\r\n\r\n" + b"x" * 70 + b"\r\n"


def installed(name):
    missing = SERVERS[name].missing()
    if missing:
        pytest.skip(f"{name} cannot run here: {missing}")
    return SERVERS[name]


@contextlib.contextmanager
def running(name, addresses=ADDRESSES, connections=100):
    recipe = installed(name)
    with private_folder() as folder:
        port = free_port(addresses, 20000, 29999, random.Random())
        site = Site(str(folder / name), addresses, port, connections, ServerState(PAGE), ZONE)
        instance = ServerProcess(recipe, site)
        instance.start()
        try:
            yield site, instance
        finally:
            instance.stop()


def lives(pid):
    """Return whether the process runs; a zombie does not."""
    with contextlib.suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    return False


def get(address, port, path="/index.html"):
    connection = http.client.HTTPConnection(address, port, timeout=30)
    try:
        connection.request("GET", path, headers={"Host": "www.ipperf.test"})
        response = connection.getresponse()
        return response.status, response.getheaders(), response.read()
    finally:
        connection.close()


def send(address, port, everyone=None, recipient="<server@ipperf.test>"):
    """Send one message; with the barrier `everyone`, all connections are open before the first message is sent."""
    client = smtplib.SMTP(timeout=30, local_hostname="client.ipperf.test")
    client.connect(address, port)
    try:
        if everyone:
            everyone.wait(30)
        client.ehlo()
        client.docmd("MAIL FROM:<client@ipperf.test>")
        client.docmd(f"RCPT TO:{recipient}")
        return client.data(MESSAGE)
    finally:
        client.quit()


# Flag of a name server that also asks others (RFC 1035, section 4.1.1), as `bind_forwarder` does.
RECURSION_AVAILABLE = 0x80


REFUSED = 5
"""Response code of a name server that answers others only (RFC 1035, section 4.1.1)."""


def refuses(address, port):
    """Return whether a name server there refuses to answer, without any record."""
    _, flags, _, answers, authorities, additional = struct.unpack_from("!6H", response_of(address, port, 1))
    return (flags & 0xF, answers, authorities, additional) == (REFUSED, 0, 0, 0)


def ask(address, port, rtype, padding=0):
    response = response_of(address, port, rtype, padding)
    ident, flags, *counts = struct.unpack_from("!4H", response)
    assert (ident, flags & ~RECURSION_AVAILABLE, counts) == (7, 0x8500, [1, 1])
    return response


def response_of(address, port, rtype, padding=0):
    query = struct.pack("!6H", 7, 0x0100, 1, 0, 0, 1 if padding else 0) + b"\3www\6ipperf\4test\0"
    query += struct.pack("!HH", rtype, 1)
    if padding:
        query += b"\0" + struct.pack("!HHIHHH", 41, 4096, 0, padding + 4, 12, padding) + bytes(padding)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.settimeout(30)
        sock.connect((address, port))
        sock.sendall(query)
        return sock.recv(65535)


def over_http(address, port):
    status, headers, body = get(address, port)
    assert (status, body) == (200, PAGE)
    assert b"</html>" in body
    assert ("Connection", "close") in headers
    assert get(address, port, "/etc/passwd")[0] == 404


def over_smtp(address, port):
    code, text = send(address, port)
    assert code == 250
    assert text.startswith(b"2.0.0 Ok: queued as ")


def over_dns(address, port):
    assert ask(address, port, 1).endswith(b"\xc0\x0c\0\1\0\1\0\0\0\0\0\4\x7f\0\0\1")
    assert ask(address, port, 28).endswith(b"\0\x10" + bytes(15) + b"\1")


TRANSACTIONS = {"http": over_http, "smtp": over_smtp, "dns": over_dns}
covered = pytest.mark.parametrize("name", [name for name in SERVERS if SERVERS[name].protocol in TRANSACTIONS])


@covered
def test_serves_both_families_and_leaves_nothing(name):
    with running(name) as (site, instance):
        for address in ADDRESSES:
            TRANSACTIONS[SERVERS[name].protocol](address, site.port)
        assert instance.wait_quiet(20) == ""
        pids, folder = instance.pids(), Path(site.folder)
        assert pids
        assert instance.cpu_seconds() >= 0
        assert instance.exit_sentence() == ""
    assert not instance.alive()
    assert not any(lives(pid) for pid in pids)
    assert not folder.parent.exists()


@covered
@pytest.mark.parametrize("address", ADDRESSES)
def test_serves_the_given_address_only(name, address):
    with running(name, addresses=(address,)) as (site, _):
        TRANSACTIONS[SERVERS[name].protocol](address, site.port)
        other = ADDRESSES[1 - ADDRESSES.index(address)]
        if SERVERS[name].cached_ttl_s and other == "127.0.0.1":  # where it asks itself what its cache lacks
            assert refuses(other, site.port)
            return
        with pytest.raises(OSError, match="refused"):
            TRANSACTIONS[SERVERS[name].protocol](other, site.port)


@covered
def test_starts_again_in_its_folder(name):
    with running(name) as (site, instance):
        instance.stop()
        assert not instance.alive()
        instance.start()
        TRANSACTIONS[SERVERS[name].protocol]("::1", site.port)


@pytest.mark.parametrize("name", ["postfix", "aiosmtpd"])
def test_takes_a_hundred_messages_at_once(name):
    with running(name) as (site, instance):
        everyone = threading.Barrier(100)
        with ThreadPoolExecutor(100) as threads:
            sent = [threads.submit(send, ADDRESSES[i % 2], site.port, everyone) for i in range(100)]
        replies = [one.result() for one in sent]
        assert {code for code, _ in replies} == {250}
        assert len({text for _, text in replies}) == 100
        assert instance.wait_quiet(20) == ""


@pytest.mark.parametrize("name", ["apache", "aiohttp"])
def test_serves_five_hundred_pages_at_once(name):
    with running(name, connections=500) as (site, instance):
        with ThreadPoolExecutor(100) as threads:
            got = list(threads.map(lambda i: get(ADDRESSES[i % 2], site.port), range(500)))
        assert {(status, body) for status, _, body in got} == {(200, PAGE)}
        assert instance.wait_quiet(20) == ""


def test_postfix_sends_nothing_anywhere():
    with running("postfix") as (site, instance):
        code, _ = send("127.0.0.1", site.port, recipient="<someone@example.org>")
        assert code == 250
        assert instance.wait_quiet(20) == ""
        assert len(list(SERVERS["postfix"].kept(site))) == 1
        # A message that somebody releases is not delivered either.
        for command in (("postsuper", "-c", f"{site.folder}/etc", "-H", "ALL"), ("postqueue", "-f")):
            config = {**os.environ, "MAIL_CONFIG": f"{site.folder}/etc"}
            subprocess.run([program(command[0]), *command[1:]], env=config, check=True, capture_output=True)
        # A separate process writes its log, and may be behind when the queue is empty.
        log, end = Path(site.folder, "log"), time.monotonic() + 20
        while "status=" not in log.read_text() and time.monotonic() < end:
            time.sleep(0.01)
        said = log.read_text()
    assert "relay=none" in said
    assert "status=sent (example.org)" in said


def test_postfix_is_ready_at_once():
    """It would sleep if it distrusted its file, as it does with one younger than a few seconds."""
    with running("postfix") as (site, instance):
        instance.stop()
        instance.start()
        assert time.time() - Path(site.folder, "etc/main.cf").stat().st_mtime >= 10


def test_postfix_needs_root():
    if true_root():
        pytest.skip("runs as root here")
    assert SERVERS["postfix"].missing() in {
        "postfix needs root",
        "postfix is not installed (Debian: apt-get install postfix)",
    }


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("padding", [400, 65_000])
def test_nameserver_answers_a_padded_query(address, padding):
    with running("nameserver") as (site, _):
        assert ask(address, site.port, 28, padding) == ask(address, site.port, 28)


def test_nameserver_keeps_a_burst():
    with running("nameserver") as (site, _), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        sock.connect(("127.0.0.1", site.port))
        sock.settimeout(30)
        question = b"\3www\6ipperf\4test\0\0\1\0\1"
        for ident in range(200):
            sock.send(struct.pack("!6H", ident, 0, 1, 0, 0, 0) + question)
        heard = {sock.recv(512)[:2] for _ in range(200)}
        assert heard == {struct.pack("!H", ident) for ident in range(200)}
