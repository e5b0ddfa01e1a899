"""FTP: a conversation ends with 226 and all of the data, and failures never show a password; so does aioftp."""

from __future__ import annotations

import socket
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.agent.load.lean.epoll_client import Burst
from pytest_ipperf.agent.load.library_client import LibraryBurst
from pytest_ipperf.agent.sockets.target import Target
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.protocols.ftp import protocol as ftp
from tests.support.servers.tcp import StreamServer, family_of

ADDRESSES = ("127.0.0.1", "::1")
PASSWORD = "hush-hush"
STATE = ftp.filled(ServerState(users=10, password=PASSWORD), 3000)
REPLIES = [
    b"220 ProFTPD Server (ipperf) [::1]\r\n",
    b"331 Password required for user7\r\n",
    b"230-Welcome\r\n and more\r\n231 is none of it\r\n230 User user7 logged in\r\n",
    b"200 Type set to I\r\n",
    b"229 Entering Extended Passive Mode (|||22123|)\r\n",
    b"150 Opening BINARY mode data connection for /file.bin (3000 bytes)\r\n",
    b"226 Transfer complete\r\n",
]
COMMANDS = [b"USER user7\r\n", b"PASS hush-hush\r\n", b"TYPE I\r\n", b"EPSV\r\n", b"", b"", b""]
EPSV, RETR = 4, 5


def said_to(replies, step=7):
    """Return a conversation that has received the first `step` replies, and its answers to them."""
    talk = ftp.conversation(STATE, 7, 6)
    return talk, [talk.receive_data(reply) for reply in replies[:step]]


def test_it_logs_in_and_asks_for_a_data_connection_and_then_for_the_file():
    talk, said = said_to(REPLIES, RETR)
    assert talk.first_bytes() == b""
    assert said == COMMANDS[:RETR]
    assert talk.data_port == 22123
    assert talk.data_connection_opened() == b"RETR file.bin\r\n"
    assert talk.closing_bytes == b"QUIT\r\n"


@pytest.mark.parametrize("order", ["226 first", "data first"])
def test_it_ends_with_226_and_the_end_of_the_data_in_either_order(order):
    talk, _ = said_to(REPLIES, RETR + 1)
    assert talk.may_finish
    moves = [lambda: talk.receive_data(REPLIES[-1]), lambda: talk.receive_from_data_connection(b"")]
    talk.receive_from_data_connection(STATE.content)
    for move in moves if order == "226 first" else reversed(moves):
        assert not talk.finished
        assert move() == b""
    assert (talk.finished, talk.trouble) == (True, "")


@given(st.data())
def test_it_does_not_mind_how_replies_are_cut(data):
    talk, said = ftp.conversation(STATE, 7, 4), []
    for reply in REPLIES:
        at = 0
        while at < len(reply):
            size = data.draw(st.integers(1, 60))
            said.append(talk.receive_data(reply[at : at + size]))
            at += size
    assert [command for command in said if command] == COMMANDS[:4]
    talk.receive_from_data_connection(STATE.content)
    talk.receive_from_data_connection(b"")
    assert (talk.finished, talk.trouble) == (True, "")


def test_each_connection_has_an_account_of_its_own_as_long_as_there_are_enough():
    users = [ftp.conversation(STATE, index, 4).receive_data(REPLIES[0]) for index in range(12)]
    assert users == [b"USER user%d\r\n" % (index % 10) for index in range(12)]


@pytest.mark.parametrize("code", [b"150", b"125"])
def test_a_data_connection_may_be_opened_or_open_already(code):
    talk, _ = said_to(REPLIES, RETR)
    talk.receive_data(code + b" now\r\n")
    assert not talk.trouble


@pytest.mark.parametrize("size", [0, 2999, 3001])
@pytest.mark.parametrize("last", ["226", "data"])
def test_data_of_another_size_are_no_file(size, last):
    talk, _ = said_to(REPLIES, RETR + 1)
    if size > 3000:
        talk.receive_from_data_connection((STATE.content * 2)[:size])
        assert (talk.kind, talk.trouble) == ("content", "expected 3000 bytes, seen more that begin with 'T'")
        return
    if size:
        talk.receive_from_data_connection(STATE.content[:size])
    moves = [lambda: talk.receive_from_data_connection(b""), lambda: talk.receive_data(REPLIES[-1])]
    for move in moves if last == "226" else reversed(moves):
        assert not talk.trouble
        move()
    assert (talk.finished, talk.failure) == (False, f"content: expected 3000 bytes, seen {size} before 226")


@pytest.mark.parametrize("at", [0, 1, 1499, 2999])
@pytest.mark.parametrize("piece", [1, 700, 4000])
def test_a_wrong_byte_is_found_wherever_it_is_and_however_it_comes(at, piece):
    wrong = bytearray(STATE.content)
    wrong[at] ^= 1
    talk, _ = said_to(REPLIES, RETR + 1)
    for begin in range(0, 3000, piece):
        if not talk.trouble:
            talk.receive_from_data_connection(bytes(wrong[begin : begin + piece]))
    assert talk.kind == "content"
    assert f" at offset {at} of 3000 bytes, seen " in talk.trouble


@pytest.mark.parametrize(
    ("step", "reply", "trouble"),
    [
        (0, b"2200 hello\r\n", "reply '2200 hello' to the greeting"),
        (0, b"220 hello\r\n331 go on\r\n", "reply '331 go on' to USER"),
        (4, b"229 (|||22123|)\r\n150 now\r\n", "reply '150 now' to RETR"),
        (6, b"226 done\r\n226 done\r\n", "reply '226 done' to RETR"),
    ],
)
def test_a_reply_before_its_command_and_one_of_four_digits_are_none(step, reply, trouble):
    talk, _ = said_to(REPLIES, step)
    if step == 6:
        talk.receive_from_data_connection(STATE.content)
        talk.receive_from_data_connection(b"")
    talk.receive_data(reply)
    assert (talk.finished, talk.failure) == (False, f"protocol: {trouble}")


def test_an_empty_file_is_a_file():
    talk = ftp.conversation(ftp.filled(ServerState(users=1, password="x"), 0), 0, 4)
    for reply in REPLIES:
        talk.receive_data(reply)
    talk.receive_from_data_connection(b"")
    assert talk.finished


@pytest.mark.parametrize(
    ("step", "reply", "trouble"),
    [
        (0, b"421 Too many\r\n", "reply '421 Too many' to the greeting"),
        (0, b"120 in a minute\r\n", "reply '120 in a minute' to the greeting"),
        (1, b"230 come in\r\n", "reply '230 come in' to USER"),
        (2, b"530 Login incorrect.\r\n", "reply '530 Login incorrect.' to PASS"),
        (2, b"530-Login\r\n530 incorrect.\r\n", "reply '530 incorrect.' to PASS"),
        (2, b"500 PASS hush-hush not understood\r\n", "reply '500 PASS ... not understood' to PASS"),
        (3, b"504 no\r\n", "reply '504 no' to TYPE"),
        (4, b"522 (2)\r\n", "reply '522 (2)' to EPSV"),
        (4, b"229 somewhere\r\n", "reply '229 somewhere' to EPSV"),
        (4, b"229 (|||0|)\r\n", "reply '229 (|||0|)' to EPSV"),
        (4, b"229 (|||65536|)\r\n", "reply '229 (|||65536|)' to EPSV"),
        (5, b"550 /file.bin: No such file\r\n", "reply '550 /file.bin: No such file' to RETR"),
        (5, b"425 no data connection\r\n", "reply '425 no data connection' to RETR"),
        (6, b"426 aborted\r\n", "reply '426 aborted' to RETR"),
        (7, b"421 shutting down\r\n", "reply '421 shutting down' to RETR"),
        (2, b"\xff\xfe garbage\r\n", "reply 'ÿþ garbage' to PASS"),
    ],
)
def test_it_names_the_reply_that_was_wrong(step, reply, trouble):
    talk, _ = said_to(REPLIES, step)
    assert talk.receive_data(reply) == b""
    assert not talk.finished
    assert talk.trouble == trouble


def test_it_does_not_gather_an_endless_line():
    talk = ftp.conversation(STATE, 0, 4)
    for _ in range(5):
        talk.receive_data(b"x" * 1000)
    assert talk.trouble == "a reply line of more than 4096 bytes"


# --- against servers with scripted replies, wrong ones too
# -------------------------------------------------------------


class Peer(StreamServer):
    """A server of files; `wrong` has replies by command, instead of the right ones.

    `sent` is sent on the data connections; `data` says whether anyone listens for them.
    """

    def __init__(self, address, wrong=(), sent=STATE.content, *, data=True):
        super().__init__(address, self._session)
        self._data = socket.create_server((address, 0), family=family_of(address), backlog=64)
        port = self._data.getsockname()[1]
        if not data:
            self._data.close()
        self._answers = dict(zip(("", "USER", "PASS", "TYPE", "EPSV", "RETR"), REPLIES, strict=False))
        self._answers["PASS"] = b"230-Welcome\r\n and more\r\n230 User logged in\r\n"  # aioftp forbids codes within
        self._answers |= {"EPSV": b"229 (|||%d|)\r\n" % port, "RETR": b"150 now\r\n", "end": REPLIES[-1], **dict(wrong)}
        self._sent = sent
        self.heard: list[bytes] = []

    def __exit__(self, *_):
        super().__exit__()
        self._data.close()

    def _session(self, conn, _):
        with conn.makefile("rb") as lines:
            conn.sendall(self._answers[""])
            while line := lines.readline():
                self.heard.append(line)
                command = line.decode().split()[0]
                conn.sendall(self._answers.get(command, b"221 bye\r\n"))
                if command == "RETR" and self._answers["RETR"].startswith(b"150"):
                    with self._data.accept()[0] as data:
                        data.sendall(self._sent)
                    conn.sendall(self._answers["end"])


def burst(client, address, port, count=3, deadline_s=10.0):
    made: Burst | LibraryBurst
    target = Target(socket.AF_INET6 if ":" in address else socket.AF_INET, None, address, port, address)
    if client == "lean":
        talks = [ftp.conversation(STATE, index, 4) for index in range(count)]
        made = Burst(target, talks, deadline_s, 0)
    else:
        pytest.importorskip("aioftp")
        made = LibraryBurst(target, ftp, STATE, count, deadline_s=deadline_s, first_ident=0)
    made.run()
    return made


def failures(made):
    return Counter(each.failure for each in made.connections)


both_clients = pytest.mark.parametrize("client", ["lean", "library"])
both_families = pytest.mark.parametrize("address", ADDRESSES)


@both_clients
@both_families
def test_both_clients_say_the_same(client, address):
    with Peer(address) as peer:
        made = burst(client, address, peer.port)
    assert failures(made) == {"": 3}
    assert made.sources == {address}
    expected = Counter({b"TYPE I\r\n": 3, b"EPSV\r\n": 3, b"RETR file.bin\r\n": 3, b"PASS hush-hush\r\n": 3})
    expected += Counter(b"USER user%d\r\n" % index for index in range(3))
    assert Counter(each for each in peer.heard if each != b"QUIT\r\n") == expected
    for each in made.connections:
        assert each.opened <= each.resolved <= each.connected <= each.first <= each.done


@both_clients
@pytest.mark.parametrize(
    ("wrong", "failure"),
    [
        ({"": b"421 Too many\r\n"}, "protocol: reply '421 Too many' to the greeting"),
        ({"PASS": b"530 Login incorrect.\r\n"}, "protocol: reply '530 Login incorrect.' to PASS"),
        ({"PASS": b"500 hush-hush?\r\n"}, "protocol: reply '500 ...?' to PASS"),
        ({"EPSV": b"522 (2)\r\n"}, "protocol: reply '522 (2)' to EPSV"),
        ({"RETR": b"550 No such file\r\n"}, "protocol: reply '550 No such file' to RETR"),
        ({"RETR": b"425 no data connection\r\n"}, "protocol: reply '425 no data connection' to RETR"),
        ({"end": b"426 aborted\r\n"}, "protocol: reply '426 aborted' to RETR"),
        ({"end": b"421 shutting down\r\n"}, "protocol: reply '421 shutting down' to RETR"),
    ],
)
def test_a_wrong_reply_is_named(client, wrong, failure):
    with Peer("::1", wrong) as peer:
        made = burst(client, "::1", peer.port)
    assert failures(made) == {failure: 3}


@pytest.mark.parametrize(
    ("client", "failure"),
    [("lean", "protocol: reply '229 here' to EPSV"), ("library", "protocol: no port in the reply to EPSV")],
)
def test_a_reply_without_a_port_is_named(client, failure):
    with Peer("127.0.0.1", {"EPSV": b"229 here\r\n"}) as peer:
        made = burst(client, "127.0.0.1", peer.port)
    assert failures(made) == {failure: 3}


@both_clients
@both_families
@pytest.mark.parametrize("size", [0, 2999, 3001])
def test_a_file_that_is_cut_short_or_too_long_is_no_success(client, address, size):
    with Peer(address, sent=(STATE.content * 2)[:size]) as peer:
        made = burst(client, address, peer.port)
    seen = "more that begin with 'T'" if size > 3000 else f"{size} before 226"
    assert failures(made) == {f"content: expected 3000 bytes, seen {seen}": 3}


@both_clients
@both_families
def test_another_file_of_the_same_size_is_no_success(client, address):
    with Peer(address, sent=STATE.content.replace(b"quick", b"quiet")) as peer:
        made = burst(client, address, peer.port)
    told = "expected 'ck brown fox jum' at offset 7 of 3000 bytes, seen 'et brown fox jum'"
    assert failures(made) == {f"content: {told}": 3}


@both_families
@pytest.mark.parametrize(("client", "failure"), [("lean", "data refused"), ("library", "talk refused")])
def test_a_data_connection_that_is_refused_is_told(client, failure, address):
    with Peer(address, data=False) as peer:
        made = burst(client, address, peer.port)
    assert failures(made) == {failure: 3}


@both_clients
def test_a_file_that_never_comes_costs_the_deadline(client):
    with Peer("127.0.0.1", {"RETR": b"125 soon\r\n"}) as peer:
        made = burst(client, "127.0.0.1", peer.port, deadline_s=1.0)
    assert set(failures(made)) <= {"talk deadline", "data deadline"}
    assert not any(each.done for each in made.connections)
