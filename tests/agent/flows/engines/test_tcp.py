"""TCP engine: real streams on the loopback device and through real queues, and everything that can go wrong."""

from __future__ import annotations

import ast
import re
import socket

import pytest

from pytest_ipperf.core.measurement.goodput_ceiling import HeaderOverhead, ceiling_bit_s

USE = """
import contextlib, dataclasses, os, signal, socket, subprocess, threading, time
from tcp_ends import *
from tests.support.servers.tcp import silent_listener
"""


@pytest.fixture(scope="session")
def output_of(isolated):
    """Return the last line printed by Python code that has the ends of runs at hand."""

    def value(code, up="ip link set lo up"):
        return ast.literal_eval(isolated(USE + code, up).splitlines()[-1])

    return value


COUNTED = """
wait_for_the_rest()
found = []
for changes in ({}, {"direction": "down", "connections": 3, "source": "127.0.0.9"}, {"payload_bytes": 32},
                {"ipver": 6, "address": "::1", "source": "::1", "connections": 2, "congestion": "reno"}):
    asked = spec(**changes)
    near, far = run(asked)
    found.append({
        "unaccounted": unaccounted(asked, near, far), "facts": facts(near, far), "rows": rows(near, far),
        "congestion": [near.detail["client"]["congestion"], far.detail["server"]["congestion"]],
        "attempted": (near.attempted, far.attempted), "path": (near.families, near.peers, near.sources),
    })
print(found)
"""
SENT_BY = {
    "sent_bytes", "retransmitted_bytes", "retransmits", "rtt_s", "base_rtt_s", "cwnd_bytes", "delivery_rate_bit_s",
    "mss_bytes", "send_buffer_bytes", "sender_cpu_s",
}  # fmt: skip
RECEIVED_BY = {"seconds", "payload_bytes", "receive_buffer_bytes", "receiver_cpu_s"}


@pytest.fixture(scope="module")
def counted(output_of):
    return output_of(COUNTED)


def test_what_arrived_is_what_the_senders_kernel_sent(counted):
    assert [each["unaccounted"] for each in counted] == [0, 0, 0, 0]


def test_the_rows_begin_and_end_with_the_run_and_give_its_throughput(counted):
    for each, streams in zip(counted, (1, 3, 1, 2), strict=True):
        facts, rows = each["facts"], each["rows"]
        assert sorted(rows) == list(range(streams))
        assert sum(points[-1][1] for points in rows.values()) == facts["payload_bytes"] > 0
        for points in rows.values():
            assert points == sorted(points)
            assert points[0] == (0.0, 0.0)
            assert points[-1][0] == facts["seconds"]
            assert len(points) == 4
        assert 0.299 < facts["seconds"] < 30


def test_every_fact_is_there_and_makes_sense(counted):
    for each in counted:
        facts = each["facts"]
        assert set(facts) == SENT_BY | RECEIVED_BY
        assert facts["sent_bytes"] >= facts["payload_bytes"]
        assert 0 < facts["base_rtt_s"] <= facts["rtt_s"] < 1
        assert facts["cwnd_bytes"] > facts["mss_bytes"] > 1000
        assert min(facts.values()) >= 0


COPIES = """
wait_for_the_rest()
found, used = [], set()
def seen(owner, name, says=lambda *_: ""):
    call = getattr(owner, name)
    def called(*given):
        used.add(name + says(*given))
        return call(*given)
    setattr(owner, name, called)
seen(os, "sendfile")
seen(socket.socket, "recv_into", lambda *given: " discard" * (given[3:] == (socket.MSG_TRUNC,)))
for sending, receiving, changes in (
    ("sendfile", "read", {}), ("zerocopy", "read", {"direction": "down", "connections": 2}), ("write", "discard", {}),
    ("sendfile", "discard", {"payload_bytes": 2**20, "connections": 4}), ("zerocopy", "discard", {"payload_bytes": 32}),
):
    asked = spec(sending=sending, receiving=receiving, **changes)
    before = left()
    used.clear()
    near, far = run(asked)
    assert left() == before
    moved = facts(near, far)["payload_bytes"]
    found.append((unaccounted(asked, near, far), moved, [*near.notes, *far.notes], used.copy()))
print(found)
"""


def test_what_is_sent_or_received_without_copies_is_counted_alike(output_of):
    """By the sender's kernel and by the receiver; loopback copies what was sent by MSG_ZEROCOPY, and says so."""
    found = output_of(COPIES)
    assert [unaccounted for unaccounted, *_ in found] == [0] * 5
    assert min(payload_bytes for _, payload_bytes, *_ in found) > 0
    copied = [any("MSG_ZEROCOPY after all" in note for note in notes) for *_, notes, _ in found]
    assert copied == [False, True, False, False, True]
    calls = [{"sendfile", "recv_into"}, {"recv_into"}, {"recv_into discard"}, {"sendfile", "recv_into discard"}]
    assert [used for *_, used in found] == [*calls, {"recv_into discard"}]


WINDOWS = """
wait_for_the_rest()
found, flags = [], set()
receive = socket.socket.recv_into
def seen(sock, into, size, given):
    flags.add(given)
    return receive(sock, into, size, given)
socket.socket.recv_into = seen
for window, receiving in (("auto", "read"), (8192, "read"), (8192, "discard")):
    flags.clear()
    near, far = run(asked := spec(window=window, receiving=receiving))
    found.append((sorted(int(flag) for flag in flags), unaccounted(asked, near, far)))
print(found)
"""


def test_with_a_window_the_receiver_reads_without_sleep_before_it_sleeps(output_of):
    """Else a small window would measure how long the receiver's idle processor takes to wake up."""
    asleep, discards = 0, socket.MSG_TRUNC
    assert output_of(WINDOWS) == [
        ([asleep], 0),
        ([asleep, socket.MSG_DONTWAIT], 0),
        ([discards, discards | socket.MSG_DONTWAIT], 0),
    ]


def test_small_writes_do_without_batches_as_well(output_of):
    code = """
from pytest_ipperf.agent.sockets import batch_io
asked = []
def missing(name, _extra_arguments):
    asked.append(name)
    raise batch_io.UnsupportedError(f"{name}: none")
batch_io._libc_function = missing
near, far = run(spec(payload_bytes=32))
print([asked, facts(near, far)["payload_bytes"]])
"""
    asked, payload_bytes = output_of(code)
    assert asked == ["sendmmsg"]
    assert payload_bytes > 0


def test_congestion_control_and_the_path_are_told_as_the_kernel_has_them(counted):
    assert [each["congestion"] for each in counted] == [["cubic"] * 2, ["cubic"] * 2, ["cubic"] * 2, ["reno"] * 2]
    assert [each["attempted"] for each in counted] == [(1, 0), (3, 0), (1, 0), (2, 0)]
    assert [each["path"] for each in counted[1::2]] == [
        (["AF_INET"], {"127.0.0.1": 3}, ["127.0.0.9"]),
        (["AF_INET6"], {"::1": 2}, ["::1"]),
    ]


@pytest.mark.parametrize("direction", ["up", "down"])
@pytest.mark.parametrize(("ipver", "network", "streams"), [(4, "198.18.0.", 1), (6, "2001:2::", 4)])
def test_through_a_real_queue_it_is_what_the_rate_leaves(output_of, ipver, network, streams, direction):
    """The machine may stop in the middle of a run, so the best of several runs counts."""
    ceiling = ceiling_bit_s(5e7, HeaderOverhead(ipver=ipver))
    code = f"""
with Shaped(50) as pair:
    found = []
    while len(found) < 24 and not (found and 0.98 < found[-1] / {ceiling} < 1.02):
        asked = spec(ipver={ipver}, source="{network}1", address="{network}2", connections={streams},
                      direction={direction!r}, warmup_s=0.2, run_s=0.5)
        it = facts(*run(asked, pair.entered))
        found.append(it["payload_bytes"] * 8 / it["seconds"])
    print(found)
"""
    found = output_of(code)
    assert found[-1] == pytest.approx(ceiling_bit_s(5e7, HeaderOverhead(ipver=ipver)), rel=0.02), found


def test_a_window_is_both_buffers_of_both_ends(output_of):
    code = """
near, far = run(spec(window=65536))
print([near.detail["client"], far.detail["server"], facts(near, far), near.notes + far.notes])
"""
    client, server, facts, notes = output_of(code)
    assert client == server
    assert client["window"] == 65536
    assert client["send_buffer_bytes"] == client["receive_buffer_bytes"] == 131072
    assert facts["send_buffer_bytes"] == facts["receive_buffer_bytes"] == 131072
    assert not [note for note in notes if "window" in note]


def without_rights():
    """Return a command that starts Python as a user who may not administer the network."""
    return 'ip link set lo up; exec setpriv --bounding-set=-net_admin --inh-caps=-all "$@"'


def test_a_window_beyond_the_kernels_limit_is_a_note_without_the_right_to_more(output_of):
    code = """
limit = min(number("net.core.wmem_max"), number("net.core.rmem_max"))
near, far = run(spec(window=4 * limit, congestion="reno"))
print([limit, near.detail["client"]["send_buffer_bytes"], near.notes, far.notes])
"""
    limit, given, *notes = output_of(code, without_rights())
    assert given < 8 * limit
    for whose, said in zip(("client", "server"), notes, strict=True):
        pattern = (
            rf"asked for a window of \w+, the {whose}'s kernel gave a (send|receive) buffer of \w+ \(net\.core\.[wr]mem"
        )
        assert [note for note in said if re.match(pattern, note)], said


def test_root_has_the_window_that_it_asks_for(output_of):
    code = """
asked = 4 * max(number("net.core.wmem_max"), number("net.core.rmem_max"))
near, far = run(spec(window=asked))
print([asked, facts(near, far), [note for note in near.notes + far.notes if "window" in note]])
"""
    asked, facts, notes = output_of(code)
    assert facts["send_buffer_bytes"] == facts["receive_buffer_bytes"] == 2 * asked
    assert notes == []


def test_a_window_smaller_than_the_kernels_smallest_buffer_is_a_note(output_of):
    (note,) = output_of("near, far = run(spec(window=1024)); print([n for n in near.notes if 'a send' in n])")
    assert re.match(r"^asked for a window of 1k, the client's kernel gave a send buffer of \d+, its smallest$", note)


def test_a_congestion_control_that_is_not_there_is_named_with_those_that_are(output_of):
    code = """
try:
    engine.far(spec(congestion="nonesuch"))
except LabError as error:
    print([str(error), refusal(spec(congestion="nonesuch"), port=20000)])
"""
    for said in output_of(code):
        assert said.startswith("congestion control nonesuch is not available in this host's kernel; ")
        assert re.search(r"\breno\b.* are \(net\.ipv4\.tcp_available_congestion_control\)$", said)


def test_one_that_the_user_may_not_have_is_named_with_those_that_he_may(output_of):
    code = """
names = [set(Path(f"/proc/sys/net/ipv4/tcp_{kind}_congestion_control").read_text().split())
         for kind in ("available", "allowed")]
print([(name, refusal(spec(congestion=name), port=20000)) for name in names[0] - names[1]])
"""
    found = output_of(code, without_rights())
    if not found:
        pytest.skip("everybody may have every congestion control of this kernel")
    for name, said in found:
        assert said.startswith(f"congestion control {name} is not permitted to this user; ")


def test_without_one_of_its_own_a_run_has_cubic_or_says_whose_it_has(output_of):
    code = """
near, far = run(spec())
print([near.detail["client"]["congestion"], near.notes])
"""
    for found, notes in (output_of(code), output_of(code, without_rights())):
        own = f"the client's congestion control is {found}, its host's default, as this user cannot set cubic"
        assert (found == "cubic", own in notes) in {(True, False), (False, True)}


def test_who_does_not_listen_refuses(output_of):
    code = "print([refusal(spec(), port=20000)])"
    assert output_of(code) == ["no TCP stream to 127.0.0.1 port 20000: refused; the server's agent must listen there"]


def test_who_is_silent_is_named_after_the_deadline(output_of):
    """One peer that does not answer, one that never reads, and two that send nothing, or nothing more."""
    code = """
found = []
for direction, said in (("up", b""), ("up", b"!"), ("down", b""), ("down", bytes(100000))):
    with fake(said) as far:
        asked = spec(direction=direction, deadline_s=0.3, run_s=30.0)
        found.append(refusal(asked, port=far.port).replace(str(far.port), "PORT"))
with silent_listener(backlog=0) as full, contextlib.ExitStack() as stack:
    for _ in range(2):
        sock = stack.enter_context(socket.socket())
        sock.setblocking(False)
        sock.connect_ex(("127.0.0.1", full))
    found.append(refusal(spec(deadline_s=0.3), port=full).replace(str(full), "PORT"))
print(found)
"""
    assert output_of(code) == [
        "the receiver at 127.0.0.1 port PORT accepted all streams and did not answer within 0.3 s",
        "the receiver at 127.0.0.1 port PORT took nothing within 0.3 s",
        "nothing arrived at 127.0.0.1 from the sender at 127.0.0.1 port PORT within 0.3 s",
        "nothing arrived at 127.0.0.1 from the sender at 127.0.0.1 port PORT within 0.3 s",
        "no TCP stream to 127.0.0.1 port PORT: no answer within 0.3 s",
    ]


def test_a_far_end_that_dies_ends_the_run_at_once(output_of):
    code = """
def killed(direction):
    asked = spec(direction=direction, run_s=60.0, connections=2)
    reading, writing = os.pipe()
    if not (pid := os.fork()):
        os.write(writing, str(engine.far(asked).listening.port).encode())
        time.sleep(60)
        os._exit(0)
    port = int(os.read(reading, 5))
    alive = once_moved(20_000_000, lambda: os.kill(pid, signal.SIGKILL))
    said = refusal(asked, port=port, alive=alive).replace(str(port), "PORT")
    os.waitpid(pid, 0), os.close(reading), os.close(writing)
    return said
print([killed("up"), killed("down")])
"""
    for said, whose in zip(output_of(code), ("receiver", "sender"), strict=True):
        found = re.match(
            rf"^the {whose} at 127\.0\.0\.1 port PORT (reset|ended) a stream, (\d+\.\d) s after its streams began$",
            said,
        )
        assert found, said
        assert float(found[2]) < 30


def test_a_near_end_that_dies_is_told_by_the_far_end(output_of):
    code = """
from pytest_ipperf.agent.flows.spec import FlowReport
found = []
for direction in ("up", "down"):
    asked = spec(direction=direction, run_s=60.0)
    far = engine.far(asked)
    with socket.create_connection(("127.0.0.1", far.listening.port)) as sock:
        sock.sendall(hello(asked.ident, 0) + bytes(10000))
        sock.recv(1)
    try:
        far.finish(FlowReport())
    except LabError as error:
        found.append(str(error))
print(found)
"""
    up, down = output_of(code)
    assert re.match(r"^the sender at 127\.0\.0\.1 (reset|ended) a stream, \d+\.\d s after its streams began$", up)
    assert re.match(r"^the receiver at 127\.0\.0\.1 (reset|ended) a stream, \d+\.\d s after its streams began$", down)


def test_strangers_are_no_streams(output_of):
    code = """
asked = spec()
with contextlib.closing(engine.far(asked)) as far:
    for said in (b"GET / HTTP/1.1", hello(asked.ident - 1, 0), hello(asked.ident, 1), b""):
        with socket.create_connection(("127.0.0.1", far.listening.port)) as sock:
            sock.sendall(said)
    near = engine.near(dataclasses.replace(asked, far=far.listening), lambda: None)
    print(facts(near, far.finish(near))["payload_bytes"])
"""
    assert output_of(code) > 0


def test_nothing_is_left_of_what_ran_failed_or_never_began(output_of):
    code = """
before = left()
for direction in ("up", "down"):
    run(spec(direction=direction, connections=3))
    with fake(b"!") as far:
        refusal(spec(direction=direction, deadline_s=0.2), port=far.port)
    far = engine.far(spec(direction=direction, connections=2))
    far.close(), far.close()
    asked = spec(direction=direction, run_s=60.0)
    far = engine.far(asked)
    said = refusal(asked, far.listening, alive=once_moved(20_000_000, far.close))
    assert "a stream" in said, said
print([before, left()])
"""
    before, after = output_of(code)
    assert before == after


def test_the_near_end_says_that_it_lives_and_may_be_stopped(output_of):
    code = """
class Stop(Exception):
    pass
def alive():
    said.append(1)
    if len(said) == 3:
        raise Stop
found = []
for direction in ("up", "down"):
    said, asked, before = [], spec(direction=direction, run_s=60.0), left()
    with contextlib.closing(engine.far(asked)) as far:
        try:
            engine.near(dataclasses.replace(asked, far=far.listening), alive)
        except Stop:
            found.append(True)
    found.append(left() == before)
print(found)
"""
    assert output_of(code) == [True] * 4


def test_an_address_that_is_not_this_hosts_is_told(output_of):
    code = """
found = []
try:
    engine.far(spec(address="198.18.0.77"))
except LabError as error:
    found.append(str(error))
far = engine.far(spec())
found.append(refusal(spec(source="198.18.0.77"), far.listening))
far.close()
print(found)
"""
    there, here = output_of(code)
    assert there.startswith("a server cannot listen on address 198.18.0.77: ")
    assert here.startswith("no TCP stream can leave from 198.18.0.77: ")


def test_a_receiver_that_has_ended_its_run_and_gone_is_no_trouble(output_of):
    """A sender that was preempted sees this; a receiver that leaves without its final message is trouble."""
    code = """
import contextlib, socket, struct, threading
from pytest_ipperf.agent.flows.tcp.sender import StreamSender
from pytest_ipperf.core.portable.errors import LabError

def left(word):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    looks, measured = iter(range(10**9)), threading.Event()
    def alive():
        if next(looks) == 2:
            measured.set()
    def take():
        while not measured.is_set():
            far.recv(1 << 20)
        far.sendall(word)
        far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        far.close()
    thread = threading.Thread(target=take)
    thread.start()
    with contextlib.closing(StreamSender([near], "the receiver", spec(run_s=2.0))) as sending:
        try:
            return sending.run(alive).facts["cwnd_bytes"] > 0
        except LabError as error:
            return str(error).partition(",")[0]
        finally:
            thread.join()

print([left(b"."), left(b"")])
"""
    assert output_of(code) == [True, "the receiver reset a stream"]
