"""IMAP: a conversation is the same however its bytes are split, and failures never show a password."""

from __future__ import annotations

import contextlib
import dataclasses
import email
import email.policy
import imaplib
import socket
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.agent.load.library_client import LibraryBurst
from pytest_ipperf.agent.sockets.target import Target
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.protocols.imap import protocol as imap
from tests.support.servers.tcp import StreamServer, silent_listener

ADDRESSES = ("127.0.0.1", "::1")
PASSWORD = 'se"cr\\et'
STATE = imap.filled(ServerState(users=10, password=PASSWORD), 300)
MESSAGE = STATE.content
FETCHED = b"* 1 FETCH (BODY[] {300}\r\n" + MESSAGE + b")\r\n"
COMMANDS = [
    b'a1 LOGIN user7 "se\\"cr\\\\et"\r\n',
    b"a2 SELECT INBOX\r\n",
    b"a3 FETCH 1 BODY.PEEK[]\r\n",
    b"",
]
COURIER = [
    b"* OK [CAPABILITY IMAP4rev1 UIDPLUS CHILDREN IDLE] Courier-IMAP ready. Copyright 1998-2018.\r\n",
    b"a1 OK LOGIN Ok.\r\n",
    b"* FLAGS (\\Draft \\Answered \\Flagged \\Seen \\Recent)\r\n* 1 EXISTS\r\n* 0 RECENT\r\na2 OK [READ-WRITE] Ok\r\n",
    FETCHED + b"a3 OK FETCH completed.\r\n",
]
# Literals where none are necessary, lower case, a line end without CR, unsolicited responses, flags in the FETCH.
ODD = [
    b"* ok hello\n",
    b"* CAPABILITY IMAP4rev1\r\na1 ok [CAPABILITY IMAP4rev1]\r\n",
    b'* LIST () "/" {9}\r\na2 OK no)\r\n* 1 EXISTS\r\n* 2 EXPUNGE\r\na2 OK\r\n',
    b"* 2 FETCH (FLAGS (\\Seen))\r\n* 1 fetch (UID 1 ENVELOPE {6}\r\nnil\r\n) FLAGS (\\Seen))\r\n"
    b"* 1 Fetch (FLAGS (\\Seen) body[] {300}\r\n"
    + MESSAGE
    + b" UID {1}\r\n1)\r\na3 Ok Fetch completed (0.001 secs).\r\n",
]
TALKS = {"courier": COURIER, "odd": ODD}
COUNTERFEIT = MESSAGE.replace(b"quick", b"quiet")
LENGTH = "expected 300 bytes, seen"
DIFFERS = "expected 'ck brown fox jum' at offset 125 of 300 bytes, seen 'et brown fox jum'"


def said_to(replies, step=4):
    """Return a conversation that has received the first `step` replies, and its answers to them."""
    fetch = imap.conversation(STATE, 7, 4)
    return fetch, [fetch.receive_data(reply) for reply in replies[:step]]


@pytest.mark.parametrize("name", TALKS)
def test_it_logs_in_selects_fetches_and_ends_with_the_ok_of_fetch(name):
    fetch, said = said_to(TALKS[name])
    assert fetch.first_bytes() == b""
    assert said == COMMANDS
    assert (fetch.finished, fetch.trouble) == (True, "")
    assert fetch.closing_bytes == b"a4 LOGOUT\r\n"


@pytest.mark.parametrize("name", TALKS)
@given(data=st.data())
def test_it_does_not_mind_how_replies_are_cut(name, data):
    fetch, said = imap.conversation(STATE, 7, 4), []
    for reply in TALKS[name]:
        at = 0
        while at < len(reply):
            assert not fetch.finished
            size = data.draw(st.integers(1, 120))
            said.append(fetch.receive_data(reply[at : at + size]))
            at += size
    assert (fetch.finished, fetch.trouble) == (True, "")
    assert [command for command in said if command] == COMMANDS[:3]


def test_each_connection_has_an_account_of_its_own_as_long_as_there_are_enough():
    greeting = COURIER[0]
    logins = [imap.conversation(STATE, index, 6).receive_data(greeting).split()[2] for index in range(12)]
    assert logins == [b"user%d" % (index % 10) for index in range(12)]


@pytest.mark.parametrize(
    ("step", "reply", "trouble"),
    [
        (0, b"* BYE too many\r\n", "reply '* BYE too many' to the greeting"),
        (0, b"* PREAUTH hello\r\n", "reply 'PREAUTH hello' to the greeting"),
        (0, b"220 mail.ipperf.test ESMTP\r\n", "reply '220 mail.ipperf.test ESMTP' to the greeting"),
        (1, b"a1 NO [AUTHENTICATIONFAILED] no\r\n", "reply 'NO [AUTHENTICATIONFAILED] no' to LOGIN"),
        (1, b"* BYE shutting down\r\n", "reply '* BYE shutting down' to LOGIN"),
        (1, b"+ go on\r\n", "reply '+ go on' to LOGIN"),
        (1, b"a2 OK hasty\r\n", "reply 'a2 OK hasty' to LOGIN"),
        (1, b"a1 OKAY\r\n", "reply 'OKAY' to LOGIN"),
        (2, b"a2 BAD what?\r\n", "reply 'BAD what?' to SELECT"),
        (3, b"a3 NO no such message\r\n", "reply 'NO no such message' to FETCH"),
        (3, b"a3 OK FETCH completed\r\n", f"{LENGTH} 0 before 'OK FETCH completed'"),
        (3, b"* 2 FETCH (BODY[] {3}\r\nabc)\r\na3 OK done\r\n", f"{LENGTH} 0 before 'OK done'"),
        (3, FETCHED.replace(b"* 1", b"* 2") + b"a3 OK done\r\n", f"{LENGTH} 0 before 'OK done'"),
        (3, FETCHED.replace(b"[]", b"[]<0>") + b"a3 OK done\r\n", f"{LENGTH} 0 before 'OK done'"),
        (3, b"* 1 FETCH (BODY[] {299}\r\n", f"{LENGTH} 299 in the literal"),
        (3, FETCHED.replace(MESSAGE, COUNTERFEIT), DIFFERS),
        (3, FETCHED[2:] + b"a3 OK done\r\n", "reply '1 FETCH (BODY[] {300}' to FETCH"),
        (3, FETCHED * 2, "expected one message, seen another one after it"),
        (3, FETCHED[:-3] + b"abc\r\na3 OK done\r\n", "reply 'abc' to FETCH"),
        (3, FETCHED + b"a3 OK done\r\nmore", "reply 'more' to FETCH"),
        (0, b"a0 OK hello\r\n", "reply 'a0 OK hello' to the greeting"),
        (1, b"a1 OK done\r\na2 OK hasty\r\n", "reply 'a2 OK hasty' to SELECT"),
        (3, b"\xff\xfe garbage\r\n", "reply 'ÿþ garbage' to FETCH"),
    ],
)
def test_it_names_the_reply_that_was_wrong(step, reply, trouble):
    fetch, _ = said_to(COURIER, step)
    assert fetch.receive_data(reply) == b""
    assert not fetch.finished
    assert fetch.trouble == trouble
    assert fetch.kind == ("content" if trouble.startswith("expected ") else "protocol")


def test_a_server_that_repeats_the_password_is_told_without_it():
    fetch, _ = said_to(COURIER, 1)
    fetch.receive_data(f"a1 BAD LOGIN user7 {PASSWORD} is not understood\r\n".encode())
    assert fetch.trouble == "reply 'BAD LOGIN user7 ... is not understood' to LOGIN"


@pytest.mark.parametrize("password", [PASSWORD, 'o"w\\n  and long'])
@pytest.mark.parametrize("before", [b"", b"x" * 60, b"x" * 70])
def test_a_password_is_hidden_in_quotes_too_and_before_what_was_said_is_cut(password, before):
    state = dataclasses.replace(STATE, password=password)
    fetch = imap.conversation(state, 7, 4)
    login = fetch.receive_data(COURIER[0])
    fetch.receive_data(b"a1 BAD %b %b %b\r\n" % (before, login.split(b" ", 3)[3].strip(), password.encode()))
    shown = fetch.trouble.split("'")[1]
    assert shown == f'BAD {before.decode()} "..." ...'.replace("  ", " ")[:80]


def test_a_wrong_byte_is_found_wherever_it_is_and_however_it_comes():
    for at in range(0, 300, 37):
        wrong = bytearray(MESSAGE)
        wrong[at] ^= 1
        fetch, _ = said_to(COURIER, 3)
        for byte in FETCHED.replace(MESSAGE, bytes(wrong)) + b"a3 OK\r\n":
            fetch.receive_data(bytes([byte]))
        assert fetch.kind == "content"
        assert f" at offset {at} of 300 bytes, seen " in fetch.trouble


def test_a_difference_stays_told_however_much_follows_it():
    fetch, _ = said_to(COURIER, 3)
    fetch.receive_data(FETCHED.replace(MESSAGE, COUNTERFEIT) + b"x" * 20_000)
    assert fetch.failure == f"content: {DIFFERS}"


def test_it_does_not_gather_an_endless_line():
    fetch = imap.conversation(STATE, 0, 4)
    for _ in range(10):
        fetch.receive_data(b"x" * 1000)
    assert fetch.trouble == "a reply line of more than 8192 bytes"


@given(st.binary(max_size=200))
def test_nothing_that_a_server_says_breaks_it(garbage):
    for step in range(4):
        fetch, _ = said_to(COURIER, step)
        fetch.receive_data(garbage)
        fetch.receive_data(b"\r\n")


@given(st.integers(200, 5000))
def test_the_message_has_the_payloads_size_in_whole_lines_and_as_unix_keeps_it(size):
    message = imap.content(size)
    assert len(message) == size
    assert message.count(b"\r") == message.count(b"\n") == message.count(b"\r\n")
    assert message.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n") == message


def test_the_message_is_one_of_the_internet_message_format():
    parsed = email.message_from_bytes(imap.content(1000), policy=email.policy.default)
    assert not parsed.defects
    assert {"From", "To", "Date", "Subject"} == set(parsed.keys())


def test_the_script_can_be_had_a_conversation_with():
    replies = imap.canned_replies(STATE)
    fetch = imap.conversation(STATE, 3, 4)
    said = fetch.receive_data(replies.greeting)
    for ending, answer in replies.turns[:3]:
        assert said.endswith(ending)
        said = fetch.receive_data(answer)
    assert fetch.finished


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (b"a: b\n\nc\n", r"has a line that does not end in CR LF: 'a: b\n\nc\n'"),
        (b"a: b\r\n\r\nc", r"has a line that does not end in CR LF: 'a: b\r\n\r\nc'"),
    ],
)
@pytest.mark.parametrize("part", ["content", "messages"])
def test_a_message_that_it_cannot_have_is_told(part, message, words):
    content, messages = (message, ()) if part == "content" else (b"", (message,))
    state = dataclasses.replace(STATE, content=content, messages=messages)
    with pytest.raises(UsageError) as caught:
        imap.filled(state, 1000)
    assert words in str(caught.value)


# --- the library ------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def peer(replies, address="127.0.0.1"):
    """A server that answers each line by the next reply, with its tag, and closes after the last."""
    heard: list[bytes] = []

    def talk(conn, _):
        conn.settimeout(30)
        with conn, conn.makefile("rb") as lines:
            conn.sendall(replies[0])
            for reply in replies[1:]:
                line = lines.readline()
                heard.append(line)
                conn.sendall(reply.replace(b"TAG", line.split()[0] if line else b""))

    with StreamServer(address, talk) as server:
        yield server.port, heard


HAS = b"* CAPABILITY IMAP4rev1\r\nTAG OK done\r\n"
TAGGED = [
    COURIER[0], HAS, b"TAG OK LOGIN Ok.\r\n", COURIER[2].replace(b"a2", b"TAG"), COURIER[3].replace(b"a3", b"TAG"),
    b"* BYE\r\nTAG OK LOGOUT\r\n",
]  # fmt: skip


def by_library(replies, address="127.0.0.1", n=1, deadline_s=30.0):
    pytest.importorskip("aioimaplib")
    with peer(replies, address) as (port, heard):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        burst = LibraryBurst(
            Target(family, None, address, port, ""), imap, STATE, n, deadline_s=deadline_s, first_ident=0, first_index=7
        )
        burst.run()
    return burst, heard


@pytest.mark.parametrize("address", ADDRESSES)
def test_the_library_sends_the_same_commands_after_asking_for_the_capabilities(address):
    burst, heard = by_library(TAGGED, address)
    (call,) = burst.connections
    assert call.failure == ""
    assert call.opened <= call.connected <= call.first <= call.done
    assert [line.split(maxsplit=1)[1] for line in heard] == [
        b"CAPABILITY\r\n", *(command.split(maxsplit=1)[1] for command in COMMANDS[:3]), b"LOGOUT\r\n",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("step", "reply", "failure"),
    [
        (0, b"* BYE too many\r\n", "protocol: reply '* BYE too many' to the greeting"),
        (0, b"", "talk closed"),
        (1, b"* BYE\r\n", "talk closed"),
        (2, b"TAG NO [AUTHENTICATIONFAILED] no\r\n", "protocol: reply 'NO [AUTHENTICATIONFAILED] no' to LOGIN"),
        (2, b"nobody OK\r\n", "talk closed"),
        (2, b"OTHER OK\r\n", "protocol: Abort: unexpected tagged response with pending sync command (* LOGIN*"),
        (3, b"TAG BAD what?\r\n", "protocol: reply 'BAD what?' to SELECT"),
        (4, b"TAG OK FETCH completed\r\n", f"content: {LENGTH} 0 before 'OK FETCH completed'"),
        (4, b"* 1 FETCH (BODY[] {2}\r\nab)\r\nTAG OK done\r\n", f"content: {LENGTH} 2 in the literal"),
        (4, TAGGED[4].replace(MESSAGE, COUNTERFEIT), f"content: {DIFFERS}"),
        (4, TAGGED[4].replace(b"* 1", b"* 2"), f"content: {LENGTH} 0 before 'OK FETCH completed.'"),
        (4, FETCHED + TAGGED[4], "content: expected one message, seen another one after it"),
        (4, FETCHED[:100], "talk closed"),
    ],
)
def test_the_library_fails_in_the_lean_clients_words(step, reply, failure):
    burst, _ = by_library([*TAGGED[:step], reply])
    (found,) = Counter(call.failure for call in burst.connections)
    assert found == failure or (failure.endswith("*") and found.startswith(failure.split("*")[0]))
    assert PASSWORD not in found


def test_the_library_waits_no_longer_than_the_deadline():
    pytest.importorskip("aioimaplib")
    with silent_listener() as port:
        target = Target(socket.AF_INET, None, "127.0.0.1", port, "")
        burst = LibraryBurst(target, imap, STATE, 3, deadline_s=1.0, first_ident=0)
        burst.run()
    assert [call.failure for call in burst.connections] == ["talk deadline"] * 3


def test_the_peer_of_these_tests_is_one_for_pythons_own_client_too():
    with peer(TAGGED) as (port, _):
        client = imaplib.IMAP4("127.0.0.1", port)
        client.login("user7", PASSWORD)
        client.select()
        assert client.fetch("1", "BODY.PEEK[]")[1][0] == (b"1 (BODY[] {300}", MESSAGE)
        client.logout()
