"""Real FTP servers: files for accounts and nobody else, by both clients, over both families, with nothing left."""

from __future__ import annotations

import contextlib
import dataclasses
import ftplib
import io
import itertools
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from pytest_ipperf.agent.host_state.private_dir import populate, private_folder
from pytest_ipperf.agent.load.runner import load
from pytest_ipperf.agent.load.spec import LoadSpec
from pytest_ipperf.agent.servers.server_process import ServerProcess
from pytest_ipperf.agent.sockets.ports import free_port
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.protocols.ftp import protocol as ftp
from pytest_ipperf.servers import SERVERS
from pytest_ipperf.servers.base import Site
from pytest_ipperf.servers.proftpd import md5_crypt

ROOT = Path(__file__).parents[2]
ADDRESSES = ("127.0.0.1", "::1")
PORTS = (20000, 29999)
PASSWORD = "d34db33f01234567"
SERVING = ("proftpd", "pyftpdlib")

every_server = pytest.mark.parametrize("name", SERVING)
both_families = pytest.mark.parametrize("address", ADDRESSES)
both_clients = pytest.mark.parametrize("client", ["lean", "library"])


@contextlib.contextmanager
def running(name, connections=100, users=500, addresses=ADDRESSES):
    recipe = SERVERS[name]
    if missing := recipe.missing():
        pytest.skip(f"{name} cannot run here: {missing}")
    state = ftp.filled(ServerState(users=users, password=PASSWORD, pages={"/a/other.txt": b"other"}), 10_000)
    with private_folder() as folder:
        data = str(folder / "data")
        populate(data, recipe.provisions(data, state))
        port = free_port(addresses, *PORTS, random.Random())
        replies = ftp.canned_replies(state)
        site = Site(
            str(folder / name), addresses, port, connections, state, canned_replies=replies, data=data, ports=PORTS
        )
        instance = ServerProcess(recipe, site)
        instance.start()
        try:
            yield site, instance
        finally:
            instance.stop()


def made(site, address, connections, bursts=1, client="lean", **changed):
    """Return the result of a run."""
    if client == "library":
        pytest.importorskip("aioftp")
    spec = LoadSpec(
        protocol="ftp",
        client=client,
        payload_bytes=len(site.state.content),
        connections=connections,
        bursts=bursts,
        ipver=6 if ":" in address else 4,
        resolver="",
        resolver_port=0,
        name=address,
        port=site.port,
        source=address,
        deadline_s=30.0,
        ident=0,
        state=dataclasses.replace(site.state, pages={}),
    )
    return load(dataclasses.replace(spec, **changed))


@contextlib.contextmanager
def session(site, address, user="user7", password=PASSWORD):
    """Yield a session for inspection."""
    with ftplib.FTP(timeout=30) as client:
        client.connect(address, site.port)
        client.login(user, password)
        yield client


def retrieved(client, path):
    got: list[bytes] = []
    client.retrbinary(f"RETR {path}", got.append)
    return b"".join(got)


@both_clients
@pytest.mark.parametrize("name", [*SERVING, "null"])
def test_all_of_ten_and_of_a_hundred_have_the_file(name, client):
    with running(name) as (site, instance):
        for address, connections, bursts in [(each, *size) for each in ADDRESSES for size in ((10, 3), (100, 1))]:
            told = made(site, address, connections, bursts, client)
            assert (told.attempted, told.failed) == (connections * bursts, {})
            assert told.sources == [address]
            assert told.families == ["AF_INET6" if ":" in address else "AF_INET"]
            assert instance.wait_quiet(20) == ""
        assert instance.exit_sentence() == ""


@every_server
def test_every_account_is_there(name):
    with running(name) as (site, _):
        told = made(site, "::1", 50, 10)
    assert (told.attempted, told.failed) == (500, {})


def test_a_thousand_at_once_have_the_file_from_pyftpdlib():
    with running("pyftpdlib", connections=1000, users=1000) as (site, _):
        for address in ADDRESSES:
            told = made(site, address, 1000)
            assert (told.attempted, told.failed) == (1000, {})


@both_clients
def test_no_session_ends_before_the_run_does(client):
    """The first process pauses when a session ends, and the next burst would be delayed by that."""
    with running("proftpd") as (site, instance):
        for address in ADDRESSES:
            assert instance.wait_quiet(20) == ""
            log = Path(site.folder, "log")
            before = len(log.read_text())
            told = made(site, address, 2, 10, client)
            assert not told.failed
            assert instance.wait_quiet(20) == ""
            said = log.read_text()[before:]
            assert said.count("session opened") == said.count("session closed") == 20
            assert said.rindex("session opened") < said.index("session closed")


@every_server
@both_families
def test_files_may_be_read_and_nothing_else(name, address):
    with running(name) as (site, _), session(site, address) as client:
        assert retrieved(client, "/file.bin") == site.state.content
        assert retrieved(client, "/a/other.txt") == b"other"
        assert sorted(Path(each).name for each in client.nlst("/")) == ["a", "file.bin"]
        for command in ("DELE file.bin", "MKD b", "RNFR file.bin", "SITE CHMOD 777 file.bin", "RMD a"):
            with pytest.raises(ftplib.error_perm):
                client.sendcmd(command)
        with pytest.raises(ftplib.error_perm):
            client.storbinary("STOR new.bin", io.BytesIO())
        for path in ("/etc/passwd", "../passwd", "/../passwd", "../../etc/passwd", f"{site.data}/passwd", "/nothing"):
            with pytest.raises(ftplib.error_perm, match="550"):
                retrieved(client, path)


@every_server
def test_ipv4_may_ask_in_the_old_way_too(name):
    with running(name) as (site, _), session(site, "127.0.0.1") as client:
        host, port = ftplib.parse227(client.sendcmd("PASV"))
        assert host == "127.0.0.1"
        assert PORTS[0] <= port <= PORTS[1]


@every_server
def test_nobody_else_may_log_in(name):
    others = [
        ("user7", "wrong"),
        ("user7", ""),
        ("nobody", PASSWORD),
        ("anonymous", "a@b"),
        ("root", ""),
        ("user500", PASSWORD),
    ]
    with running(name) as (site, _):
        for address, (user, password) in itertools.product(ADDRESSES, others):
            with pytest.raises(ftplib.error_perm, match="530"), session(site, address, user, password):
                pass


@every_server
def test_a_wrong_password_and_a_missing_account_are_told(name):
    with running(name, users=5) as (site, _):
        changes: list[dict[str, Any]] = [{"password": "wrong"}, {"users": 10}]
        for client, change in itertools.product(("lean", "library"), changes):
            state = dataclasses.replace(site.state, pages={}, **change)
            told = made(site, "::1", 10, client=client, state=state)
            (failure,) = told.failed
            assert failure.startswith("protocol: reply '530 ")
            assert failure.endswith("' to PASS")
            assert told.failed == {failure: 10 if "password" in change else 5}


@every_server
def test_a_missing_file_is_told(name):
    with running(name) as (site, _):
        Path(site.data, "home/file.bin").unlink(missing_ok=True)
        Path(site.data, "files/file.bin").unlink(missing_ok=True)
        told = made(site, "127.0.0.1", 2)
    # ProFTPD resets the data connection before it says why.
    assert sum(told.failed.values()) == 2
    for failure in told.failed:
        assert failure == "data reset" or (failure.startswith("protocol: reply '550 ") and failure.endswith(" to RETR"))


@every_server
def test_secrets_are_nobodys_to_read(name):
    with running(name) as (site, instance):
        secret = Path(site.data, "passwd" if name == "proftpd" else "accounts")
        assert secret.stat().st_mode & 0o777 == 0o600
        assert instance.wait_quiet(20) == ""  # the session of the probe may end while it is looked at
        for pid in instance.pids():
            assert PASSWORD.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
        for path in Path(site.folder).parent.rglob("*"):
            if path.is_file() and path != secret:
                assert PASSWORD.encode() not in path.read_bytes()


@every_server
@both_families
def test_serves_the_given_address_only_and_leaves_nothing(name, address):
    with running(name, addresses=(address,)) as (site, instance):
        told = made(site, address, 2)
        assert not told.failed
        other = ADDRESSES[1 - ADDRESSES.index(address)]
        with pytest.raises(OSError, match="refused"):
            socket.create_connection((other, site.port), timeout=5)
        pids = instance.pids()
        instance.stop()
        instance.start()
        told = made(site, address, 2)
        assert not told.failed
        pids += instance.pids()
    assert not instance.alive()
    assert not any(Path(f"/proc/{pid}/exe").exists() for pid in pids)
    assert not Path(site.folder).parent.exists()


def test_proftpd_says_what_still_goes_on():
    with running("proftpd") as (site, instance):
        assert instance.wait_quiet(20) == ""
        with session(site, "::1"):
            assert SERVERS["proftpd"].busy(site) == "1 session not ended"
        assert instance.wait_quiet(20) == ""
        assert SERVERS["proftpd"].busy(site) == ""


def test_hashes_are_those_of_crypt():
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs openssl")
    for password in ("a", "d34db33f01234567", "x" * 40, "p/%$ :"):
        argv = [openssl, "passwd", "-1", "-salt", "ipperf", password]
        assert (
            md5_crypt(password, "ipperf")
            == subprocess.run(argv, capture_output=True, text=True, check=True).stdout[:-1]
        )


AS_ANYONE = """
import dataclasses, json, os, random, sys
from pytest_ipperf.agent.servers.server_process import ServerProcess
from pytest_ipperf.agent.sockets.ports import free_port
from pytest_ipperf.agent.host_state.private_dir import populate, private_folder
from pytest_ipperf.agent.load.runner import load
from pytest_ipperf.agent.load.spec import LoadSpec
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.protocols.ftp import protocol as ftp
from pytest_ipperf.servers.base import Site
from pytest_ipperf.servers.proftpd import server
both, ports, found = ("127.0.0.1", "::1"), (20000, 29999), []
state = ftp.filled(ServerState(users=100, password="d34db33f"), 10000)
if why := server.missing():
    sys.exit(why)
with private_folder() as folder:
    data = str(folder / "data")
    populate(data, server.provisions(data, state))
    port = free_port(both, *ports, random.Random())
    site = Site(str(folder / "site"), both, port, 100, state, data=data, ports=ports)
    instance = ServerProcess(server, site)
    instance.start()
    try:
        for ipver, address in zip((4, 6), both):
            for number in (10, 100):
                target = (ipver, "", 0, address, port, address)
                told = load(LoadSpec("ftp", "lean", 10000, number, 1, *target, 30.0, 0, state=state))
                found.append([told.attempted, told.failed])
                found.append(instance.wait_quiet(20))
    finally:
        instance.stop()
print(json.dumps([os.geteuid(), *found]))
"""


def test_proftpd_needs_no_root():
    if missing := SERVERS["proftpd"].missing():
        pytest.skip(missing)
    words, python = [], sys.executable
    if os.geteuid() == 0:
        words, python = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"], "/usr/bin/python3"
    with tempfile.TemporaryDirectory(prefix="pytest-ipperf-copy-") as folder:
        Path(folder).chmod(0o755)
        shutil.copytree(
            ROOT / "pytest_ipperf", Path(folder, "pytest_ipperf"), ignore=shutil.ignore_patterns("__pycache__")
        )
        env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        argv = [*words, "env", "TMPDIR=/tmp", python, "-c", "import sys; sys.exit(sys.version_info < (3, 10))"]
        if subprocess.run(argv, env=env, capture_output=True, check=False, cwd="/").returncode:
            pytest.skip("there is no Python >= 3.10 here that a user without rights may run")
        done = subprocess.run([*argv[:-1], AS_ANYONE], env=env, capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 0, done.stderr
    user, *found = json.loads(done.stdout)
    assert user != 0
    assert found == [[10, {}], "", [100, {}], ""] * 2
