"""Properties of every protocol's conversation: whatever arrives, it finishes, fails, or waits for more."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.portable.reply_script import CannedReplies
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.protocols import application, applications
from pytest_ipperf.servers.nameserver import answers, reply
from tests.support.payloads import payload_of

ADDRESSES = ("192.0.2.1", "2001:db8::1")
STATE = ServerState(users=3, password="secret-42", addresses=ADDRESSES)
PORT = 40000
# Building blocks of numbers, ends, beginnings and lengths in one protocol or another.
PARTS = [
    b"\r\n", b"\n", b" ", b"-", b"* ", b"+ ", b"{", b"}\r\n", b"{0}\r\n", b"{300}\r\n", b"* {%b}\r\n" % (b"9" * 5000),
    b"(|||0|)", b"(|||99999|)", b"* BYE\r\n", b"</html>", b"HTTP/1.1 ", b"200", b"226 \r\n", b"226-\r\n", b"421 \r\n",
    b"250 queued\r\n", b"\0", b"\xff", b"\xc0\x0c", b"\x00\x07\x84\x00\x00\x01\xff\xff\x00\x00\x00\x00",
]  # fmt: skip

every_protocol = pytest.mark.parametrize("name", applications())


class Wire:
    """A conversation and canned replies. `control` and `data` are the bytes still to be delivered; None: no data."""

    def __init__(self, name, size=300, ipver=4):
        protocol = application(name)
        state = protocol.filled(STATE, payload_of(protocol, size))
        self.talk = protocol.conversation(state, 7, ipver)
        replies = protocol.canned_replies(state).with_port(PORT)
        self._whole = protocol.datagram
        if protocol.datagram:
            asked = self.talk.first_bytes()
            answer = replies.datagram.answer if replies.datagram else self._resolved
            replies = CannedReplies(b"", ((b"", answer(asked)),))
        self._replies = replies
        self._turn = 0
        self._heard = b""
        self.control = replies.greeting
        self.data: bytes | None = None
        self._hear(self.talk.first_bytes())

    @staticmethod
    def _resolved(query):
        return reply(query, answers(dict.fromkeys([application("dns").host], ADDRESSES)))

    def _hear(self, said):
        self._heard += said
        if said and self._heard.endswith(self._replies.turns[self._turn][0]):
            self.control += self._replies.turns[self._turn][1]
            self._turn, self._heard = self._turn + 1, b""

    @property
    def over(self):
        return self.talk.finished or bool(self.talk.trouble)

    @property
    def ways(self):
        """Return the connections with something to deliver; the end of the data counts too."""
        return ["control"] * bool(self.control) + ["data"] * (self.data is not None)

    def bring(self, way, size):
        """Deliver the next `size` bytes; a datagram is delivered whole."""
        if way == "data":
            assert self.data is not None
            piece, self.data = self.data[:size], self.data[size:] if self.data else None
            said = self.talk.receive_from_data_connection(piece)
        else:
            size = len(self.control) if self._whole else size
            piece, self.control = self.control[:size], self.control[size:]
            said = self.talk.receive_data(piece)
        self._go_on(said)

    def inject(self, garbage, way="control"):
        """Deliver bytes that the server would not send."""
        self._go_on(
            self.talk.receive_data(garbage) if way == "control" else self.talk.receive_from_data_connection(garbage)
        )

    def _go_on(self, said):
        assert isinstance(said, bytes)
        assert not (self.talk.finished and self.talk.trouble)
        if self.over:
            return
        self._hear(said)
        if self.talk.data_port:
            assert 0 < self.talk.data_port < 65536
            self.talk.data_port = 0
            self.data = self._replies.data or b""
            self._hear(self.talk.data_connection_opened())


@every_protocol
@given(data=st.data(), size=st.integers(200, 1200), ipver=st.sampled_from([4, 6]))
def test_a_good_dialogue_finishes_however_it_is_cut(name, data, size, ipver):
    wire = Wire(name, size, ipver)
    while wire.ways:
        assert not wire.over
        wire.bring(data.draw(st.sampled_from(wire.ways)), data.draw(st.integers(1, 2 * size)))
    assert (wire.talk.finished, wire.talk.trouble) == (True, "")


@every_protocol
@pytest.mark.parametrize("way", ["control", "data"])
def test_no_beginning_of_a_good_dialogue_is_finished(name, way):
    """Deliver byte by byte, on one connection or the other first."""
    wire = Wire(name)
    while wire.ways:
        assert not wire.over
        wire.bring(way if way in wire.ways else wire.ways[0], 1)
    assert wire.talk.finished


@every_protocol
@pytest.mark.parametrize("part", PARTS, ids=lambda part: repr(part[:20]))
def test_what_does_not_belong_there_breaks_nothing_at_any_step(name, part):
    """Inject before or after the data, if there are any."""
    for order in (["control"] * 9, ["control", "control", "control", "control", "control", "data", "data"]):
        for steps in range(len(order)):
            wire = Wire(name)
            for way in order[:steps]:
                if way in wire.ways:
                    wire.bring(way, 1 << 20)
            if not wire.over:
                wire.inject(part)


@every_protocol
@given(data=st.data())
def test_whatever_comes_at_any_time_ends_in_success_or_trouble_or_waits(name, data):
    wire = Wire(name)
    for way in data.draw(st.lists(st.sampled_from(["control", "control", "data"]), max_size=10)):
        if way in wire.ways and not wire.over:
            wire.bring(way, 1 << 20)
    garbage = data.draw(st.lists(st.one_of(st.binary(max_size=40), st.sampled_from(PARTS)), max_size=12))
    for piece in garbage if data.draw(st.booleans()) else [b"".join(garbage)]:
        if not wire.over:
            wire.inject(piece, data.draw(st.sampled_from(["control", *["data"] * (wire.data is not None)])))


@every_protocol
@given(data=st.data(), seed=st.integers(0, 1 << 32))
def test_a_dialogue_with_wrong_places_ends_in_success_or_trouble_or_waits(name, data, seed):
    """Near misses are harder than noise: some bytes of good replies are lost, doubled, or changed."""
    rng = random.Random(seed)
    wire = Wire(name)
    while wire.ways and not wire.over:
        way = data.draw(st.sampled_from(wire.ways))
        if way == "control" and rng.random() < 0.5:
            wire.control = damaged(wire.control, rng)
        wire.bring(way, data.draw(st.integers(1, 500)))


def damaged(reply, rng):
    at = rng.randrange(len(reply))
    end = at + rng.randrange(1, 5)
    return reply[:at] + rng.choice((b"", reply[at:end] * 2, rng.randbytes(end - at), rng.choice(PARTS))) + reply[end:]


@pytest.mark.parametrize("name", [name for name in applications() if not application(name).datagram])
def test_nobody_is_let_talk_for_ever(name):
    """A line without an end is refused, or discarded as it arrives: none is buffered for ever."""
    talk = Wire(name).talk
    for _ in range(64):
        if not talk.trouble:
            talk.receive_data(b"x" * 1024)
    kept = [getattr(talk, slot) for kind in type(talk).__mro__ for slot in getattr(kind, "__slots__", ())]
    assert sum(len(each) for each in kept if isinstance(each, bytes)) < 20_000


def test_a_mark_without_a_status_is_no_page():
    get = Wire("http").talk
    get.receive_data(b"</html>")
    assert not get.finished
    get.receive_data(b"</html>")
    assert get.trouble
