"""A suite's own server states: what each protocol accepts, and the messages with which it refuses the others."""

from __future__ import annotations

import dataclasses
import re
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.agent.load.library_client import LibraryBurst
from pytest_ipperf.agent.sockets.target import Target
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.protocols import application, applications
from tests.support.servers.mail import serve_mail
from tests.support.servers.tcp import StreamServer

STATE = ServerState(users=2, password="secret")
SMTP = application("smtp")
REPLIES = [b"220 hi\r\n", *[b"250 Ok\r\n"] * 3, b"354 go on\r\n", b"250 Ok: queued as 1\r\n", b"221 bye\r\n"]
DOTTED = b"Subject: x\r\n\r\n.\r\n..\r\n.a\r\na.\r\n"
PLAIN = "is not a line of printable ASCII characters such as 'secret'"

logs_in = pytest.mark.parametrize("name", ["ftp", "imap"])


def refused(name, state):
    with pytest.raises(UsageError) as caught:
        application(name).filled(state, 1000)
    return str(caught.value)


@logs_in
def test_without_users_both_they_and_a_password_are_asked_for(name):
    said = refused(name, ServerState())
    assert said.startswith(f"{name} logs in, and server_state has no users; give it some, and a password, as in ")
    (proposed,) = re.findall(r"ServerState\(.*\)$", said)
    assert application(name).filled(eval(proposed), 1000).users == 500


@logs_in
@pytest.mark.parametrize("password", ["", "a\r\nb", "a\nb", "a\0b", "a\tb", "ü", "\x7f"])
def test_a_password_that_no_log_in_can_say_is_refused(name, password):
    said = refused(name, dataclasses.replace(STATE, password=password))
    assert said == f"{name} logs in, and the password of server_state {PLAIN}"


@logs_in
@pytest.mark.parametrize("password", ["x", "two words", 'o"w\\n:', "{PLAIN}~"])
def test_any_printable_password_will_do(name, password):
    assert application(name).filled(dataclasses.replace(STATE, password=password), 1000).password == password


def test_who_does_not_log_in_needs_no_password():
    assert application("http").filled(ServerState(users=2), 1000).users == 2


@pytest.mark.parametrize(("name", "path"), [("http", "/index.html"), ("ftp", "/file.bin"), ("http", "/index.html/x")])
def test_a_page_does_not_take_the_place_of_what_is_measured(name, path):
    said = refused(name, dataclasses.replace(STATE, pages={path: b"other"}))
    assert said == f"page {path!r} is where {name} has its content; give it as content"
    beside = dataclasses.replace(STATE, pages={"/index.htm": b"", "/a/index.html": b"", "/a/file.bin": b""})
    assert application(name).filled(beside, 1000).pages == beside.pages


@pytest.mark.parametrize(
    "content", [b"<html>", b"<html></html>\n", b"</html></html>", b"<pre></html></pre></html>", b"x</HTML>"]
)
def test_a_page_ends_where_its_measurement_does(content):
    said = refused("http", ServerState(content))
    assert said == "the content of server_state is not a page with </html> at its end and nowhere else"


def test_a_page_of_ones_own_is_whole_when_it_ends_and_not_before():
    state = application("http").filled(ServerState(b"<html>mine</html>"), 17)
    get = application("http").conversation(state, 0, 4)
    get.receive_data(b"HTTP/1.1 200 OK\r\n\r\n" + state.content[:-1])
    assert not get.finished
    get.receive_data(state.content[-1:])
    assert get.finished


@pytest.mark.parametrize("content", [b"a: b\n\nc\n", b"a: b\r\n\r\nc", b"a: b\r\r\n", b"a: b\r\n\r\nc\r"])
@pytest.mark.parametrize("name", ["smtp", "imap"])
def test_a_message_has_lines_that_end_in_cr_lf(name, content):
    said = refused(name, dataclasses.replace(STATE, content=content))
    assert said == f"a message of server_state has a line that does not end in CR LF: {content.decode()!r}"


# --- dots -------------------------------------------------------------------------------------------------------------


def sent(content):
    """Return what the lean client sends after DATA."""
    talk = SMTP.conversation(SMTP.filled(ServerState(content), len(content)), 0, 4)
    for reply in REPLIES[:4]:
        talk.receive_data(reply)
    return talk.receive_data(REPLIES[4])


def received(data):
    """Return the message as a server reads it (RFC 5321, section 4.5.2); nothing may follow its end."""
    lines = data.split(b"\r\n")
    assert lines.index(b".") == len(lines) - 2
    return b"".join(line.removeprefix(b".") + b"\r\n" for line in lines[:-2])


@given(st.lists(st.text(".a", max_size=3), min_size=1, max_size=6))
def test_a_message_arrives_with_all_of_its_dots(lines):
    content = "".join(f"{line}\r\n" for line in lines).encode()
    assert received(sent(content)) == content


@pytest.mark.host
def test_both_clients_send_a_message_with_dots_alike():
    pytest.importorskip("aiosmtplib")
    heard: list[bytes] = []
    with StreamServer("127.0.0.1", lambda conn, _: serve_mail(conn, note=heard.append)) as server:
        target = Target(socket.AF_INET, None, "127.0.0.1", server.port, "")
        burst = LibraryBurst(target, SMTP, ServerState(DOTTED), 1, deadline_s=10.0, first_ident=0)
        burst.run()
    assert [each.failure for each in burst.connections] == [""]
    message = heard[heard.index(b"DATA\r\n") + 1 : heard.index(b".\r\n") + 1]
    assert b"".join(message) == sent(DOTTED)


@pytest.mark.parametrize("name", [name for name in applications() if not application(name).datagram])
def test_a_payload_that_would_fill_the_memory_is_refused(name):
    application(name).check(1, 2**30, {})
    with pytest.raises(UsageError, match=r"1073741825 is more than .* take 1073741824 at most, or file_transfer"):
        application(name).check(1, 2**30 + 1, {})
