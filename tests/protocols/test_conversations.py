import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.protocols import application, applications
from pytest_ipperf.protocols.base import Application, Conversation

SMTP = [
    (b"220 mail.ipperf.test ESMTP\r\n", b"EHLO client.ipperf.test\r\n"),
    (b"250-mail.ipperf.test\r\n250-SIZE\r\n250 8BITMIME\r\n", b"MAIL FROM:<client-0000000000@ipperf.test>\r\n"),
    (b"250 2.1.0 Ok\r\n", b"RCPT TO:<server@ipperf.test>\r\n"),
    (b"250 2.1.5 Ok\r\n", b"DATA\r\n"),
    (b"354 End data with <CR><LF>.<CR><LF>\r\n", b"(the message)"),
    (b"250 2.0.0 Ok: queued as 4F1B\r\n", b""),
]
HTTP = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"


def talk(name: str, payload: int = 1024) -> Conversation:
    protocol = application(name)
    return protocol.conversation(protocol.filled(ServerState(), payload), 0, 4)


@pytest.mark.parametrize("name", applications())
def test_a_protocol_is_called_like_its_file_and_names_its_sources(name):
    protocol = application(name)
    assert protocol.name == name
    assert "RFC" in protocol.source
    assert "paper 000" in protocol.source


def test_a_protocol_without_a_library_client_says_so():
    with pytest.raises(UsageError, match=r"^smtp has no library client; leave out --client=library$"):
        Application.library(application("smtp"), ServerState(), family=2, source="", port=25)


@pytest.mark.parametrize("name", [name for name in applications() if not application(name).datagram])
@given(size=st.integers(200, 70_000))
def test_content_has_exactly_the_payloads_size(name, size):
    assert len(application(name).content(size)) == size


@pytest.mark.parametrize("name", [name for name in applications() if name != "ftp"])  # an FTP file may be empty
def test_a_payload_that_is_too_small_is_said_with_the_smallest(name):
    with pytest.raises(UsageError, match=rf"payload 10 is too small for {name}, whose .* at least \d+ bytes"):
        application(name).content(10)


@given(st.integers(200, 5000))
def test_a_message_has_whole_lines_only(size):
    """A bare CR or LF, or a line of one dot, would change the message that is measured (RFC 5321)."""
    message = application("smtp").content(size)
    assert message.endswith(b"\r\n")
    assert message.count(b"\r") == message.count(b"\n") == message.count(b"\r\n")
    assert b"\r\n.\r\n" not in message


def test_smtp_sends_one_message_and_ends_at_queued():
    send = talk("smtp")
    assert send.first_bytes() == b""
    for reply, command in SMTP[:4]:
        assert send.receive_data(reply) == command
    assert send.receive_data(SMTP[4][0]) == application("smtp").content(1024) + b".\r\n"
    assert (send.finished, send.trouble) == (False, "")
    assert send.receive_data(SMTP[5][0]) == b""
    assert (send.finished, send.trouble) == (True, "")
    assert send.closing_bytes == b"QUIT\r\n"


@given(st.data())
def test_smtp_does_not_mind_how_replies_are_cut(data):
    stream = b"".join(reply for reply, _ in SMTP)
    send, said = talk("smtp"), b""
    at = 0
    while at < len(stream):
        # A server waits for each command, so a piece never reaches beyond the present reply.
        end = next(e for e in _ends() if e > at)
        size = data.draw(st.integers(1, end - at))
        said += send.receive_data(stream[at : at + size])
        at += size
    assert send.finished
    assert said.startswith(b"EHLO client.ipperf.test\r\nMAIL FROM:")


def _ends() -> list[int]:
    ends, total = [], 0
    for reply, _ in SMTP:
        total += len(reply)
        ends.append(total)
    return ends


@pytest.mark.parametrize(
    ("step", "reply", "trouble"),
    [
        (0, b"554 go away\r\n", "reply '554 go away' to the greeting"),
        (2, b"450 4.2.1 try later\r\n", "reply '450 4.2.1 try later' to MAIL"),
        (4, b"250 what?\r\n", "reply '250 what?' to DATA"),
        (5, b"250 2.0.0 Ok\r\n", "reply '250 2.0.0 Ok' to the message"),
        (1, b"\xff\xfe garbage\r\n", "reply 'ÿþ garbage' to EHLO"),
    ],
)
def test_smtp_names_the_reply_that_was_wrong(step, reply, trouble):
    send = talk("smtp")
    for said, _ in SMTP[:step]:
        send.receive_data(said)
    assert send.receive_data(reply) == b""
    assert not send.finished
    assert send.trouble == trouble


def test_smtp_does_not_gather_an_endless_line():
    send = talk("smtp")
    for _ in range(5):
        send.receive_data(b"x" * 1000)
    assert send.trouble == "a reply line of more than 4096 bytes"


@given(st.integers(100, 3000), st.data())
def test_http_ends_when_the_end_of_the_page_is_seen_however_it_is_cut(size, data):
    get, stream = talk("http", size), HTTP + application("http").content(size)
    assert get.first_bytes().startswith(b"GET /index.html HTTP/1.1\r\nHost: www.ipperf.test\r\n")
    at = 0
    while at < len(stream):
        assert not get.finished
        piece = stream[at : at + data.draw(st.integers(1, 700))]
        assert get.receive_data(piece) == b""
        at += len(piece)
    assert get.finished
    assert not get.trouble


def test_http_names_a_status_that_is_not_200():
    get = talk("http")
    get.receive_data(b"HTTP/1.1 503 Service Unavailable\r\n\r\n")
    assert get.trouble == "reply 'HTTP/1.1 503 Service Unavailable'"
    assert not get.finished


@pytest.mark.host
def test_the_lean_client_loads_nothing_that_only_libraries_need():
    code = "import sys; from pytest_ipperf.protocols import PROTOCOLS; list(PROTOCOLS.values()); "
    code += "import pytest_ipperf.agent.load.runner; print({'asyncio', 'ssl'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
