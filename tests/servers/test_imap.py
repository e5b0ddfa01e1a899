"""Real IMAP servers: mailboxes are provisioned, logged in to, found unchanged, and nothing of the server is left."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import imaplib
import json
import os
import random
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pytest_ipperf.agent.host_state.private_dir import populate, private_folder
from pytest_ipperf.agent.load.runner import load
from pytest_ipperf.agent.load.spec import LoadSpec
from pytest_ipperf.agent.servers.server_process import ServerProcess
from pytest_ipperf.agent.sockets.ports import free_port
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.protocols import application
from pytest_ipperf.servers import SERVERS
from pytest_ipperf.servers import courier as courier_module
from pytest_ipperf.servers.base import Entry, Site, maildirs, true_root
from pytest_ipperf.servers.imapd import Imapd, Mailboxes, Session

ROOT = Path(__file__).parents[2]
ADDRESSES = ("127.0.0.1", "::1")
# Characters that need quoting in a shell, a colon-separated table or a quoted string.
PASSWORD = "a:b|c\"d\\e{f} g$h'"
ASKED = ServerState(users=20, password=PASSWORD)
STATE = application("imap").filled(ASKED, 3000)
every_server = pytest.mark.parametrize("name", [name for name in SERVERS if SERVERS[name].protocol == "imap"])
every_client = pytest.mark.parametrize("client", ["lean", "library"])


def usable(name):
    if missing := SERVERS[name].missing():
        pytest.skip(f"{name} cannot run here: {missing}")
    return SERVERS[name]


@contextlib.contextmanager
def running(name, state=STATE, *, addresses=ADDRESSES, connections=50, recipe=None):
    recipe = recipe or usable(name)
    with private_folder() as folder:
        data = str(folder / "held")
        if recipe.provisioned:
            populate(data, recipe.provisions(data, state))
        port = free_port(addresses, 20000, 29999, random.Random())
        site = Site(str(folder / name), addresses, port, connections, state, data=data)
        instance = ServerProcess(recipe, site)
        instance.start()
        try:
            yield site, instance
        finally:
            instance.stop()


def burst(site, n, ipver, *, client="lean", asked=ASKED, payload=3000, bursts=1, deadline_s=30.0):
    """Return failures by kind, and the number of completed connections."""
    if client == "library":
        pytest.importorskip("aioimaplib")
    spec = LoadSpec(
        protocol="imap", client=client, payload_bytes=payload, connections=n, bursts=bursts, ipver=ipver, resolver="",
        resolver_port=0, name=ADDRESSES[ipver == 6], port=site.port, source="", deadline_s=deadline_s, ident=0,
        state=asked,
    )  # fmt: skip
    told = load(spec)
    return dict(told.failed), told.attempted - sum(told.failed.values())


def held(folder):
    """Return every file below a folder: its bytes and its modification time."""
    found = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in found}


@every_server
@every_client
@pytest.mark.parametrize("ipver", [4, 6])
def test_every_account_can_be_logged_in_to_and_holds_the_message(name, client, ipver):
    with running(name) as (site, instance):
        assert burst(site, 20, ipver, client=client) == ({}, 20)
        assert instance.wait_quiet(20) == ""
        pids, folder = instance.pids(), Path(site.folder)
        assert pids
    assert not instance.alive()
    assert not folder.parent.exists()
    assert not any(b"gam_server" in cmdline(pid) or b"courier" in cmdline(pid) for pid in pids)


def cmdline(pid):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


@every_server
def test_serves_the_given_address_only(name):
    for address, other in (ADDRESSES, ADDRESSES[::-1]):
        with running(name, addresses=(address,)) as (site, _):
            assert imaplib.IMAP4(address, site.port).logout()[0] == "BYE"
            with pytest.raises(OSError, match="refused"):
                imaplib.IMAP4(other, site.port)


@every_server
def test_another_password_or_account_is_refused(name):
    with running(name) as (site, _), ThreadPoolExecutor() as threads:  # each refusal takes some seconds, by design
        refused = [
            threads.submit(logged_in, site, *wrong)
            for wrong in (("user0", "wrong"), ("user20", PASSWORD), ("user1", ""))
        ]
        for each in refused:
            with pytest.raises(imaplib.IMAP4.error):
                each.result()
        with logged_in(site, "user19", PASSWORD) as client:
            assert client.select() == ("OK", [b"1"])


def logged_in(site, user, password):
    client = imaplib.IMAP4("::1", site.port, timeout=30)
    try:
        client.login(user, password)
    except imaplib.IMAP4.error:
        client.shutdown()
        raise
    return client


@every_server
def test_the_message_comes_first_and_others_follow(name):
    others = (b"Subject: second\r\n\r\nx\r\n", b"Subject: third\r\n\r\n" + b"y" * 50 + b"\r\n")
    with running(name, dataclasses.replace(STATE, users=2, messages=others)) as (site, _):
        with logged_in(site, "user1", PASSWORD) as client:
            assert client.select() == ("OK", [b"3"])
            fetched = [part[1] for part in client.fetch("1:*", "(BODY.PEEK[])")[1] if isinstance(part, tuple)]
        assert fetched == [STATE.content, *others]


@every_server
def test_starts_again_in_its_folder(name):
    with running(name) as (site, instance):
        burst(site, 5, 4)
        instance.stop()
        instance.start()
        assert burst(site, 5, 4) == ({}, 5)


@pytest.mark.parametrize("name", ["courier", "dovecot"])
def test_no_run_changes_what_the_next_one_finds(name):
    """A server may write an index at its first look; afterwards it writes no more."""
    with running(name) as (site, instance):
        assert burst(site, 20, 4) == ({}, 20)
        assert instance.wait_quiet(20) == ""
        before = held(site.data)
        assert sum(name.endswith(":2,S") for name in before) == 20
        assert burst(site, 20, 6, bursts=3) == ({}, 60)
        assert instance.wait_quiet(20) == ""
        assert held(site.data) == before


@pytest.mark.parametrize("name", ["courier", "dovecot"])
def test_two_hundred_at_once_each_in_a_mailbox_of_its_own(name):
    asked = ServerState(users=200, password=PASSWORD)
    state = application("imap").filled(asked, 1024)
    with running(name, state, connections=200) as (site, instance):
        # Its limits are those of both IP versions together.
        for n, ipver in ((1, 4), (10, 6), (100, 4), (200, 6)):
            assert burst(site, n, ipver, asked=asked, payload=1024) == ({}, n)
            assert instance.wait_quiet(20) == ""


@pytest.mark.parametrize("ipver", [4, 6])
def test_the_embedded_server_is_good_for_a_thousand(ipver):
    asked = ServerState(users=1000, password=PASSWORD)
    with running("imapd", application("imap").filled(asked, 3000), connections=1000) as (site, _):
        assert burst(site, 1000, ipver, asked=asked) == ({}, 1000)


def test_the_embedded_server_can_be_made_to_refuse_every_tenth():
    class Choosy(Imapd):
        def entries(self, site):
            mailboxes = Mailboxes.of(site.state)
            accounts = {name: mailboxes.accounts[name] for name in mailboxes.accounts if not name.endswith(b"9")}
            return (Entry("accounts", dataclasses.replace(mailboxes, accounts=accounts).to_bytes(), 0o600),)

    with running("imapd", recipe=Choosy()) as (site, _):
        failed, completed = burst(site, 20, 4)
    said = "NO [AUTHENTICATIONFAILED] no such account or another password"
    assert (failed, completed) == ({f"protocol: reply {said!r} to LOGIN": 2}, 18)


# --- the embedded server ----------------------------------------------------------------------------------------------


def test_its_password_is_nowhere_but_in_a_file_of_its_own():
    with running("imapd") as (site, instance):
        path = Path(site.folder, "accounts")
        assert path.stat().st_mode & 0o777 == 0o600
        assert json.loads(path.read_text())[0]["user0"] == PASSWORD
        for pid in instance.pids():
            assert PASSWORD.encode() not in cmdline(pid)


@pytest.fixture(scope="module")
def conversation():
    """Return the embedded server's replies to lines, on a connection of its own."""
    small = dataclasses.replace(STATE, content=b"Subject: x\r\n\r\nbody\r\n", users=3, password="pass")

    def said(*lines):
        with socket.create_connection(("127.0.0.1", site.port), 30) as sock, sock.makefile("rb") as replies:
            sock.sendall(b"".join(lines))
            sock.shutdown(socket.SHUT_WR)
            return replies.read()

    with running("imapd", small) as (site, _):
        yield said


IN = b"1 LOGIN user0 pass\r\n2 SELECT INBOX\r\n"


@pytest.mark.parametrize(
    ("lines", "answer"),
    [
        ([b"a NOOP\r\n"], b"a OK completed\r\n"),
        ([b"a noop\n"], b"a OK completed\r\n"),
        ([b"a CAPABILITY\r\n"], b"* CAPABILITY IMAP4rev1 LITERAL+\r\na OK CAPABILITY completed\r\n"),
        ([b"a LOGIN {5}\r\nuser0 {4}\r\npass\r\n"], b"+ go on\r\n+ go on\r\na OK [CAPABILITY IMAP4rev1"),
        ([b'a LOGIN "user0" {4+}\r\npass\r\n'], b"a OK [CAPABILITY IMAP4rev1 LITERAL+] LOGIN completed\r\n"),
        ([b'a LOGIN user0 "pa\\"ss"\r\n'], b"a NO [AUTHENTICATIONFAILED] no such account or another password\r\n"),
        ([b"a LOGIN user0\r\n"], b"a BAD these arguments are not understood\r\n"),
        ([b"a SELECT INBOX\r\n"], b"a NO log in first\r\n"),
        ([b"a\r\n"], b"a BAD no such command here\r\n"),
        ([b"\r\n"], b"* BAD no such command here\r\n"),
        ([b"1 LOGIN user0 pass\r\na FETCH 1 FLAGS\r\n"], b"a NO select a mailbox first\r\n"),
        ([b"1 LOGIN user0 pass\r\na LOGIN user1 pass\r\n"], b"a BAD you are logged in\r\n"),
        ([b"1 LOGIN user0 pass\r\na SELECT Sent\r\n"], b"a NO there is only INBOX\r\n"),
        ([b'1 LOGIN user0 pass\r\na LIST "" *\r\n'], b'* LIST (\\HasNoChildren) "/" INBOX\r\na OK LIST completed\r\n'),
        (
            [b"1 LOGIN user0 pass\r\na STATUS INBOX (MESSAGES UIDNEXT)\r\n"],
            b"* STATUS INBOX (MESSAGES 1 UIDNEXT 2)\r\na OK STATUS completed\r\n",
        ),
        ([IN, b"a FETCH 1 (FLAGS UID)\r\n"], b"* 1 FETCH (FLAGS (\\Seen) UID 1)\r\na OK FETCH completed\r\n"),
        ([IN, b"a FETCH 1 BODY[TEXT]\r\n"], b"* 1 FETCH (BODY[TEXT] {6}\r\nbody\r\n)\r\na OK FETCH completed\r\n"),
        ([IN, b"a UID FETCH 1:* body.peek[header]<0.7>\r\n"], b"(UID 1 BODY[HEADER]<0> {7}\r\nSubject)\r\na OK"),
        ([IN, b"a FETCH 2 BODY[]\r\n"], b"a OK FETCH completed\r\n"),
        ([IN, b"a FETCH 1 FAST\r\n"], b'(FLAGS (\\Seen) INTERNALDATE "01-Jan-2026 00:00:00 +0000" RFC822.SIZE 20)'),
        ([IN, b"a FETCH one BODY[]\r\n"], b"a BAD these arguments are not understood\r\n"),
        ([IN, b"a FETCH 1 BODY[1.MIME]\r\n"], b"a BAD these arguments are not understood\r\n"),
        ([IN, b"a FETCH 1\r\n"], b"a BAD these arguments are not understood\r\n"),
        ([IN, b"a UID SEARCH ALL\r\n"], b"a BAD no such command here\r\n"),
        ([b"a LOGOUT\r\nb NOOP\r\n"], b"* BYE\r\na OK LOGOUT completed\r\n"),
        ([b"x" * 70_000], b"* BYE that is too long\r\n"),
        ([b"a LOGIN {99999999}\r\n"], b"* BYE that is too long\r\n"),
    ],
)  # fmt: skip
def test_the_embedded_server_answers(conversation, lines, answer):
    greeting = b"* OK [CAPABILITY IMAP4rev1 LITERAL+] pytest-ipperf\r\n"
    said = conversation(*lines)
    assert said.startswith(greeting)
    assert answer in said
    assert not answer.endswith(b"\r\n") or said.endswith(answer)


def test_the_embedded_server_survives_anything(conversation):
    rng = random.Random(1)
    whole = b'a LOGIN user0 {4}\r\npass\r\nb SELECT INBOX\r\nc FETCH 1:* (BODY.PEEK[] UID)\r\nd LIST "" %\r\n'
    for _ in range(200):
        broken = bytearray(whole)
        for _ in range(rng.randrange(1, 6)):
            broken[rng.randrange(len(broken))] = rng.randrange(256)
        with contextlib.suppress(ConnectionResetError):  # it closes on what is too long, unread bytes and all
            assert conversation(bytes(broken)).startswith(b"* OK ")
    assert conversation(b"a NOOP\r\n").endswith(b"a OK completed\r\n")


class Hours:
    """A loop whose clock is set by hand."""

    def __init__(self):
        self.now_s = 0.0
        self.due: list[tuple[float, Callable[[], None]]] = []

    def time(self):
        return self.now_s

    def call_at(self, when_s, call):
        self.due.append((when_s, call))

    def call_later(self, delay_s, call):
        self.call_at(self.now_s + delay_s, call)

    def go_on(self, until_s):
        while self.due and min(self.due)[0] <= until_s:
            self.now_s, call = min(self.due)
            self.due.remove((self.now_s, call))
            call()
        self.now_s = until_s


class Wire(asyncio.Transport):
    """Transport that records what is sent."""

    def __init__(self):
        super().__init__()
        self.said = b""
        self.closed = False

    def write(self, data):
        self.said += data

    def close(self):
        self.closed = True


def test_the_embedded_server_waits_five_minutes_for_each_command(monkeypatch):
    hours, wire = Hours(), Wire()
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: hours)
    session = Session(Mailboxes.of(STATE))
    session.connection_made(wire)
    for minute in range(4, 40, 4):
        hours.go_on(60.0 * minute)
        session.data_received(b"a NOOP\r\n")
        assert b"BYE" not in wire.said
    session.data_received(b"b NO")  # which is no command yet
    hours.go_on(60.0 * 41 - 0.1)
    assert b"BYE" not in wire.said
    hours.go_on(60.0 * 41)
    assert wire.closed
    assert wire.said.endswith(b"a OK completed\r\n* BYE that took too long\r\n")


# --- mailboxes and recipes --------------------------------------------------------------------------------------------


def test_mailboxes_are_laid_out_parents_first_with_read_messages_as_unix_keeps_them():
    state = ServerState(content=b"a\r\nb\r\n", users=2, messages=(b"c\r\n",))
    found = [(entry.path, entry.content) for entry in maildirs("mail", state, None)]
    one = [
        *((path, None) for path in ("mail/user0", "mail/user0/cur", "mail/user0/new", "mail/user0/tmp")),
        ("mail/user0/cur/1000000000.M0P1.ipperf:2,S", b"a\nb\n"),
        ("mail/user0/cur/1000000001.M0P1.ipperf:2,S", b"c\n"),
    ]
    assert found == [("mail", None), *one, *((path.replace("user0", "user1"), content) for path, content in one)]


def test_what_a_mailbox_holds_is_for_its_owner_alone():
    if not true_root():
        pytest.skip("needs root, who may give files away")
    entries = list(maildirs("mail", STATE, "nobody"))[1:]
    assert {(entry.owner, entry.mode & 0o077) for entry in entries} == {("nobody", 0)}


def test_courier_says_where_it_was_looked_for(monkeypatch):
    if Path("/usr/sbin/couriertcpd").exists():
        pytest.skip("it is installed here")
    monkeypatch.setenv("IPPERF_COURIER", "/nowhere")
    assert SERVERS["courier"].missing() == (
        "courier is neither installed (Debian: apt-get install courier-imap) nor unpacked in /nowhere"
    )
    monkeypatch.delenv("IPPERF_COURIER")
    assert courier_module._unpacked() == "/usr/local/lib/pytest-ipperf/courier"


@pytest.mark.parametrize("name", ["/run", "/run/user/0", "{}/a,b", "{}/a:b", "{}/a b", "{}/a|b", "{}/link"])
def test_courier_says_where_its_files_cannot_be(name, tmp_path, monkeypatch):
    usable("courier")
    folder = Path(name.format(tmp_path))
    if folder.name == "link":
        folder.symlink_to("/run")
    monkeypatch.setenv("TMPDIR", str(folder))
    shown = "/run" if folder.name == "link" else folder
    assert SERVERS["courier"].missing() == (
        f"courier needs TMPDIR to be a folder of letters, digits and -._/ that is not below /run: {shown}"
    )
    monkeypatch.setenv("TMPDIR", "/running/x-y_z.1")
    assert SERVERS["courier"].missing() == ""


def test_courier_is_unpacked_anywhere_and_once(tmp_path, monkeypatch):
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        pytest.skip("no apt here")
    folder = tmp_path / "taken"
    unpacked = Path(courier_module._unpacked())
    if not (unpacked / "usr/sbin/couriertcpd").exists():
        pytest.skip("courier is not unpacked here (make servers)")
    shutil.copytree(unpacked, folder, symlinks=True)
    done = subprocess.run(
        ["sh", ROOT / ".ci/courier", folder], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL
    )
    assert done.stdout == f"already unpacked: Courier in {folder}\n"
    if SERVERS["courier"].missing():
        return
    monkeypatch.setenv("IPPERF_COURIER", str(folder))
    with running("courier") as (site, _):
        assert burst(site, 3, 6) == ({}, 3)


def test_a_dovecot_of_another_version_is_refused(monkeypatch):
    usable("dovecot")
    monkeypatch.setattr("pytest_ipperf.servers.dovecot.words", lambda *_: "2.4.1-4 (7d8c0e5759)")
    assert SERVERS["dovecot"].missing() == "dovecot 2.4.1-4 is not supported, only 2.3 is"


SERVES = """
import sys
sys.path[:0] = [sys.argv[1], sys.argv[2]]
import test_imap as tests
with tests.running("dovecot") as (site, instance):
    print([tests.burst(site, 20, ipver) for ipver in (4, 6)], instance.wait_quiet(20))
"""


def test_dovecot_runs_for_a_user_without_rights():
    usable("dovecot")
    if os.geteuid() != 0:
        pytest.skip("that is who runs the tests here")
    words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--", "env"]
    python = "/usr/bin/python3"
    asked = [*words, python, "-c", "import sys; sys.exit(sys.version_info < (3, 10))"]
    if subprocess.run(asked, capture_output=True, check=False, cwd="/").returncode:
        pytest.skip(f"no {python} >= 3.10 that a user without rights may run")
    # Not below pytest's own folder, which nobody else may enter, and which is long for the name of a socket.
    with tempfile.TemporaryDirectory(prefix="ipperf-copy-") as folder:
        Path(folder).chmod(0o777)
        shutil.copytree(ROOT / "pytest_ipperf", Path(folder, "pytest_ipperf"))
        Path(folder, "test_imap.py").write_text(Path(__file__).read_text().replace("import pytest\n", PYTEST))
        done = subprocess.run(
            [*words, "PYTHONDONTWRITEBYTECODE=1", f"TMPDIR={folder}", python, "-c", SERVES, folder, folder],
            capture_output=True, text=True, check=False, cwd="/", timeout=300,
        )  # fmt: skip
        assert (done.stdout, done.stderr) == ("[({}, 20), ({}, 20)] \n", "")
        assert {path.name for path in Path(folder).iterdir()} <= {"pytest_ipperf", "test_imap.py"}


# In a Python that need not have it, for the few words that this module says at its top.
PYTEST = """
class pytest:
    class mark:
        parametrize = staticmethod(lambda *_, **__: lambda test: test)
    fixture = staticmethod(lambda *_, **__: lambda test: test)
"""
