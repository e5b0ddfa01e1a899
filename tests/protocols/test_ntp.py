"""NTP: which responses count, which are ignored, and which are trouble, by name."""

import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.protocols import application
from pytest_ipperf.servers.sntp import response, timestamp

NTP = application("ntp")
STATE = NTP.filled(ServerState(), 48)


def talk():
    return NTP.conversation(STATE, 7, 4)


def right(message, request, _):
    """Judge a response by RFC 5905, sections 7.3 and 9.2 and appendix A.5.1.1, for the tests of every protocol."""
    if len(message) < 48:
        return False
    flags, stratum, _, _, delay, dispersion, _, reference, origin, received, sent = struct.unpack(
        "!BBbb3I4Q", message[:48]
    )
    synchronized = flags >> 6 != 3 and 1 <= stratum <= 15
    expected = int.from_bytes(request[40:], "big")
    near = delay + 2 * dispersion < 2 * 16 << 16
    past = reference == 0 or (sent - reference) % (1 << 64) < 1 << 63
    return flags & 0x3F == 0x24 and synchronized and origin == expected and received > 0 and sent > 0 and near and past


def answered(change=lambda answer: answer):
    asked = talk()
    answer = bytearray(response(asked.first_bytes()))
    asked.receive_data(bytes(change(answer)))
    return asked


def changed(at, value):
    def change(answer):
        answer[at : at + len(value)] = value
        return answer

    return answered(change)


def test_a_request_says_nothing_of_its_client_but_version_and_mode():
    requests = [talk().first_bytes() for _ in range(100)]
    assert {request[:40] for request in requests} == {b"\x23" + bytes(39)}
    assert {len(request) for request in requests} == {48}
    assert len({request[40:] for request in requests}) == 100


def test_a_response_ends_it():
    asked = answered()
    assert (asked.finished, asked.trouble, asked.content_bytes) == (True, "", 48)


@pytest.mark.parametrize("longer", [b"\0" * 16, b"\0" * 20])
def test_extension_fields_and_digests_after_the_header_are_not_read(longer):
    assert answered(lambda answer: answer + longer).finished


@pytest.mark.parametrize("origin", [bytes(8), b"12345678"])
def test_a_response_to_another_request_is_ignored_even_if_it_would_be_trouble(origin):
    asked = talk()
    for stratum in (0, 1):
        answer = bytearray(response(asked.first_bytes()))
        answer[1], answer[24:32] = stratum, origin
        asked.receive_data(bytes(answer))
        assert (asked.finished, asked.trouble) == (False, "")
    asked.receive_data(response(asked.first_bytes()))
    assert asked.finished


@pytest.mark.parametrize(
    ("at", "value", "trouble"),
    [
        (0, b"\x23", "version 4, mode 3 instead of version 4, mode 4 (server)"),
        (0, b"\x25", "version 4, mode 5 instead of version 4, mode 4 (server)"),
        (0, b"\x1c", "version 3, mode 4 instead of version 4, mode 4 (server)"),
        (0, b"\xe4", "a clock that is not synchronized (leap indicator 3, stratum 1)"),
        (1, b"\x10", "a clock that is not synchronized (leap indicator 0, stratum 16)"),
        (32, bytes(8), "no receive or no transmit timestamp"),
        (40, bytes(8), "no receive or no transmit timestamp"),
        (4, b"\0\x20\0\0", "a root distance of 16 s, which must be below 16 s"),
        (8, b"\xff" * 4, "a root distance of 6.55e+04 s, which must be below 16 s"),
        (16, b"\xff" * 8, "a reference timestamp that is later than the transmit timestamp"),
    ],
)
def test_what_is_wrong_with_a_response_is_said(at, value, trouble):
    asked = changed(at, value)
    assert (asked.finished, asked.failure, asked.content_bytes) == (False, f"protocol: {trouble}", 0)


@pytest.mark.parametrize(
    ("code", "shown"), [(b"RATE", "RATE"), (b"DENY", "DENY"), (b"X1\0\0", "X1"), (b"\xff\0\n\0", r"b'\xff\x00\n'")]
)
def test_a_kiss_of_death_is_told_with_its_code(code, shown):
    def kiss(answer):
        answer[1], answer[12:16] = 0, code
        return answer

    assert answered(kiss).failure == f"protocol: kiss-o'-death {shown}"


@pytest.mark.parametrize("size", range(48))
def test_a_truncated_response_is_trouble_as_soon_as_it_says_whose_it_is(size):
    asked = answered(lambda answer: answer[:size])
    assert not asked.finished
    assert asked.trouble == (f"a packet of {size} bytes instead of 48" if size >= 32 else "")


@given(st.binary(max_size=80), st.integers(0, 1 << 32))
def test_whatever_comes_counts_only_if_it_is_right(noise, seed):
    rng, asked = random.Random(seed), talk()
    answer = bytearray(response(asked.first_bytes()))
    for _ in range(rng.randrange(4)):
        answer[rng.choice((5, 9, 16, rng.randrange(48)))] = rng.choice(
            (0, 1, 3, 0x23, 0x24, 0xE4, 0xFF, rng.randrange(256))
        )
    for message in rng.sample([noise, bytes(answer), bytes(answer) + noise], 3):
        if not (asked.finished or asked.trouble):
            assert asked.receive_data(message) == b""
            assert asked.finished == right(message, asked.first_bytes(), b"")
            assert not (asked.finished and asked.trouble)


@pytest.mark.parametrize(
    ("size", "why"),
    [(47, "too small for ntp, whose packet has at least 48"), (49, "too large for ntp, whose packet has 48")],
)
def test_other_sizes_are_refused(size, why):
    with pytest.raises(UsageError, match=f"^payload {size} is {why} bytes$"):
        NTP.content(size)


# --- the server's side ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_the_server_answers_clients_in_their_version_and_keeps_their_poll(version):
    request = bytes([version << 3 | 3, 0, 17]) + bytes(37) + b"01234567"
    before, answer, after = timestamp(), response(request), timestamp()
    flags, stratum, poll, _, delay, _, name, reference, origin, received, sent = struct.unpack("!BBbb3I4Q", answer)
    assert (flags, stratum, poll, delay, name) == (version << 3 | 4, 1, 17, 0, 0x4C4F434C)
    assert origin == int.from_bytes(b"01234567", "big")
    assert before <= reference <= received <= sent <= after


def test_the_server_answers_nothing_but_clients():
    """Least of all servers: two would talk for ever."""
    answered = {first for first in range(256) if response(bytes([first]) + bytes(47))}
    assert answered == {first for first in range(256) if first & 7 == 3 and first >> 3 & 7 in {1, 2, 3, 4}}


@given(st.binary(max_size=100))
def test_an_answer_is_never_longer_than_its_question(request):
    answer = response(request)
    assert len(answer) in {0, 48}
    assert len(answer) <= len(request)


def test_a_timestamp_counts_seconds_since_1900(monkeypatch):
    """RFC 5905, figure 4: the first day of Unix is second 2208988800."""
    monkeypatch.setattr("time.time_ns", lambda: 1_500_000_000)
    assert timestamp() == (2_208_988_801 << 32) + (1 << 31)


def test_servers_do_not_answer_each_others_responses():
    canned = NTP.canned_replies(STATE).datagram
    assert canned
    for answer in (canned.answer, response):
        assert answer(talk().first_bytes())
        assert answer(answer(talk().first_bytes())) == b""
