"""`pytest-ipperf model`: a traffic model from a capture, of packets that tcpdump and dumpcap captured among others."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from itertools import pairwise

import pytest

from pytest_ipperf.core.portable.traffic.distribution import Variable
from pytest_ipperf.core.portable.traffic.schedule import packets
from pytest_ipperf.traffic_models import TrafficModels
from pytest_ipperf.traffic_models.base import model_from_text
from tests.core.captures.frames import CLIENT, SERVER, ethernet, ipv4, pcap, udp
from tests.support.needs import PATH, require

SENT = """
import os, socket, subprocess, sys, time
with subprocess.Popen(sys.argv[1:], stderr=subprocess.PIPE, text=True) as capturing:
    said = ""
    while "istening on" not in said and "File:" not in said:
        said = capturing.stderr.readline()
        assert said
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        with socket.socket(family, socket.SOCK_DGRAM) as to, socket.socket(family, socket.SOCK_DGRAM) as sock:
            to.bind((address, 5004))
            sock.bind((address, 5006))
            for number in range(100 if family == socket.AF_INET else 200):
                sock.sendto(bytes(100 if number % 4 else 700), (address, 5004))
                time.sleep(0.001)
    for _ in range(100):  # until the capture has them; what a busy machine misses is in neither reading
        if os.path.getsize(sys.argv[-1]) > 75_000:
            break
        time.sleep(0.1)
    time.sleep(0.2)
    capturing.terminate()
"""
READ = re.compile(r"^(\d+\.\d+) .*IP6 ::1\.5006 > ::1\.5004: .*length (\d+)$", re.MULTILINE)
FLOW = "UDP [::1]:5006 - [::1]:5004"


@pytest.fixture
def call(tmp_path):
    """Write a capture of a call of 20 s and of a second, smaller flow; return its path."""
    model = TrafficModels()["g711.2"]
    frames = []
    for name, source, target, ports in (("up", CLIENT, SERVER, (4000, 5004)), ("down", SERVER, CLIENT, (5004, 4000))):
        for packet in packets(model, name, 1, "call", least_bytes=0, until_s=20):
            datagram = udp(packet.size_bytes, *ports)
            frames.append((round(1e9 * packet.due_s), ethernet(ipv4(17, datagram, source, target))))
    frames += [(30 * 10**6 * number, ethernet(ipv4(17, udp(64, 27005, 27015)))) for number in range(100)]
    path = tmp_path / "A-call.pcap"
    path.write_bytes(pcap(sorted(frames)))
    return path


def test_a_model_is_written_and_its_fit_is_shown(program, call):
    status, lines, said = program(call, "model", "A-call.pcap")
    assert (status, said) == (0, "")
    assert lines[0] == "UDP 198.18.0.1:4000 - 198.18.1.2:5004: of 2 flows, 2000 of 2100 packets with payload"
    assert "  packets (packet/s)     50.00  50.00      +0.0 %" in lines
    assert "  payload (kbit/s)       68.80  68.80      +0.0 %" in lines
    assert lines.count("  Kolmogorov-Smirnov distance: sizes 0.000, intervals 0.000") == 2
    assert lines[-1] == "a.call.toml: model a.call"
    written = model_from_text("a.call", (call.parent / "a.call.toml").read_text())
    assert [stream.direction for stream in written.streams] == ["up", "down"]
    assert [stream.size_bytes and stream.size_bytes.constant for stream in written.streams] == [172, 172]
    assert [stream.interval_s.constant for stream in written.streams] == [pytest.approx(0.02), pytest.approx(0.02)]
    assert written.source == "capture A-call.pcap of 1970-01-01"


def test_a_flow_is_chosen_and_the_model_is_named(program, call):
    status, lines, _ = program(call, "model", "A-call.pcap", "--flow=udp/:27015", "--name=game", "-o", "own.toml")
    assert (status, lines[0].split(": ")[0]) == (0, "UDP 198.18.0.1:27005 - 198.18.1.2:27015")
    assert lines[-1] == "own.toml: model game"
    (stream,) = model_from_text("game", (call.parent / "own.toml").read_text()).streams
    assert stream.size_bytes == Variable.of(64)
    assert stream.interval_s.constant == pytest.approx(0.03)


def test_a_file_that_exists_is_not_overwritten_unless_it_is_named(program, call):
    kept = call.parent / "a.call.toml"
    kept.write_text("mine")
    status, _, said = program(call, "model", "A-call.pcap")
    assert (status, said) == (4, "pytest-ipperf: a.call.toml exists; remove it, or name another file by --output\n")
    assert kept.read_text() == "mine"
    assert program(call, "model", "A-call.pcap", "--output=a.call.toml")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing.pcap"], "capture nothing.pcap: it cannot be read: No such file or directory"),
        (["text.pcap"], "capture text.pcap: it is no pcap or pcapng file: it begins with 68 65 6c 6c"),
        (["empty.pcap"], "capture empty.pcap: no packet of it is UDP or TCP over IP"),
        (["A-call.pcap", "--flow=sctp/:5"], "capture A-call.pcap: --flow: 'sctp' is no protocol"),
        (["A-call.pcap", "--flow=:9"], "no flow is ':9'; there are UDP 198.18.0.1:4000 - 198.18.1.2:5004, UDP 198"),
        (["A-call.pcap", "--name=G711 mine"], "--name 'G711 mine' is no name of a model; take small letters"),
        (["A-call.pcap", "-o", "no/where.toml"], "model no/where.toml cannot be written: No such file or directory"),
    ],
)
def test_what_is_wrong_is_named_in_one_sentence(program, call, arguments, said):
    (call.parent / "text.pcap").write_text("hello world")
    (call.parent / "empty.pcap").write_bytes(pcap([]))
    status, lines, told = program(call, "model", *arguments)
    assert (status, lines) == (1 if "no/where" in said else 4, [])
    assert said in told
    assert told.count("\n") == 1


def test_a_capture_that_was_broken_off_is_used_up_to_there(program, call):
    call.write_bytes(call.read_bytes()[:-1])
    status, lines, _ = program(call, "model", "A-call.pcap")
    assert (status, lines[1]) == (0, "the capture ends within a packet; all before it were used")


@pytest.mark.host
@pytest.mark.parametrize(
    "capturing",
    [
        ["tcpdump", "-Z", "root", "-U", "-i", "lo", "-w"],
        ["tcpdump", "-Z", "root", "-U", "-i", "any", "-y", "LINUX_SLL", "--time-stamp-precision=nano", "-w"],
        ["tcpdump", "-Z", "root", "-U", "-i", "any", "-w"],
        ["dumpcap", "-i", "lo", "-w"],
    ],
    ids=["ethernet", "cooked", "cooked2", "pcapng"],
)
def test_packets_captured_by_other_programs_are_those_that_tcpdump_reads(program, tmp_path, capturing):
    require("tcpdump", "unshare", "ip", capturing[0])
    path = tmp_path / "own.pcap"
    shell = f'PATH="{PATH}"; ip link set lo up; exec "$@"'
    argv = ["unshare", "--net", "sh", "-ec", shell, "sh", sys.executable, "-c", SENT, *capturing, str(path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    if "unshare" in done.stderr:
        pytest.skip("no rights for a network namespace")
    assert done.returncode == 0, done.stderr
    status, lines, said = program(path, "model", "own.pcap")
    assert (status, said) == (0, "")
    reading = [str(shutil.which("tcpdump", path=PATH)), "-nn", "-tt", "--time-stamp-precision=nano", "-r", str(path)]
    read = READ.findall(subprocess.run(reading, capture_output=True, text=True, check=True).stdout)
    assert lines[0].startswith(f"{FLOW}: of 2 flows, {len(read)} of ")
    small = sum(size == "100" for _, size in read)
    (stream,) = model_from_text("own", (tmp_path / "own.toml").read_text()).streams
    assert stream.size_bytes
    (sizes,) = stream.size_bytes.parts
    assert dict(zip(sizes.values, sizes.weights, strict=True)) == {100: small, 700: len(read) - small}
    shown = next(line.split()[3] for line in lines if line.startswith("  interval, mean"))
    mean_ms = 1e3 * (float(read[-1][0]) - float(read[0][0])) / (len(read) - 1)
    assert float(shown) == pytest.approx(mean_ms, rel=0.01)
    lowest = min(later - earlier for earlier, later in pairwise(float(at) for at, _ in read))
    assert stream.interval_s.parts[0].values[0] == pytest.approx(lowest, abs=2e-6)
