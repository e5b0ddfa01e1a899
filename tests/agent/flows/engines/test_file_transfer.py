"""File-transfer engine: real FTP servers on the loopback device, and servers that break off, lie or fall silent."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import resource
import socket
import threading
import time
from array import array

import pytest

from pytest_ipperf.agent.flows.engines import ENGINES, file_transfer
from pytest_ipperf.agent.flows.spec import FlowServer, FlowSpec
from pytest_ipperf.agent.host_state.private_dir import populate, private_folder
from pytest_ipperf.agent.kernel.interface_bytes import interface_bytes
from pytest_ipperf.agent.servers.server_process import ServerProcess
from pytest_ipperf.agent.sockets.ports import free_port
from pytest_ipperf.core.portable.content import FileContent
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.core.portable.server_state import LARGE_FILE, ServerState
from pytest_ipperf.protocols.ftp import protocol as ftp
from pytest_ipperf.servers import SERVERS
from pytest_ipperf.servers.base import Site

ADDRESSES = {4: "127.0.0.1", 6: "::1"}
PORTS = (20000, 29999)
PASSWORD = "d34db33f01234567"
MIB = 2**20
ENGINE = ENGINES["file_transfer"]


def spec_of(port, size, *, ipver=4, sessions=1, run_s=0.5, warmup_s=0.1, deadline_s=5.0, device="lo"):
    users = [f"user{each}" for each in range(sessions)]
    return FlowSpec(
        engine="file_transfer", ipver=ipver, source="", address=ADDRESSES[ipver], ports=PORTS, connections=sessions,
        payload_bytes=size, factors={}, warmup_s=warmup_s, run_s=run_s, deadline_s=deadline_s, ident=1,
        service=FlowServer(port=port, users=users, password=PASSWORD), device=device,
    )  # fmt: skip


@contextlib.contextmanager
def serving(name, size, users=3):
    """A real server with a large file; gives its port and its folder."""
    recipe = SERVERS[name]
    if missing := recipe.missing():
        pytest.skip(f"{name} cannot run here: {missing}")
    state = ftp.filled(dataclasses.replace(ServerState(users=users, password=PASSWORD), file_bytes=size), 1024)
    addresses = tuple(ADDRESSES.values())
    with private_folder() as folder:
        data = str(folder / "data")
        populate(data, recipe.provisions(data, state))
        port = free_port(addresses, *PORTS, random.Random())
        site = Site(str(folder / name), addresses, port, 10, state, data=data, ports=PORTS)
        instance = ServerProcess(recipe, site)
        instance.start()
        try:
            yield port, folder / "data"
        finally:
            instance.stop()


def run(spec):
    return ENGINE.near(spec, lambda: None)


def run_until(spec, is_enough):
    """Run again where this machine stood still for most of so short a run."""
    for _ in range(20):
        report = run(spec)
        if is_enough(report):
            break
    return report


@pytest.mark.parametrize("name", ["proftpd", "pyftpdlib"])
@pytest.mark.parametrize(("ipver", "sessions"), [(4, 1), (6, 3)])
def test_a_real_server_is_fetched_from_again_and_again(name, ipver, sessions):
    with serving(name, 3 * MIB + 5) as (port, _):
        report = run_until(
            spec_of(port, 3 * MIB + 5, ipver=ipver, sessions=sessions), lambda report: report.facts["transfers"] > 2
        )
    facts = report.facts
    assert report.failed == {}
    assert facts["transfers"] > 2
    assert report.attempted == facts["transfers"] + sessions
    # Those under way at the beginning and the end are counted in part.
    assert abs(facts["payload_bytes"] - facts["transfers"] * (3 * MIB + 5)) <= 2 * sessions * (3 * MIB + 5)
    # What was in the receiver's buffer at the beginning, of a file for each session at most, had been counted before.
    assert facts["interface_bytes"] > max(0, facts["payload_bytes"] - sessions * (3 * MIB + 5))
    assert facts["seconds"] >= 0.5
    assert 0 < facts["longest_gap_s"] < facts["seconds"]
    assert report.families == ["AF_INET6" if ipver == 6 else "AF_INET"]
    assert report.peers == {ADDRESSES[ipver]: sessions}
    rows = array("d", report.samples)
    assert list(rows[:3]) == [0.0, 0.0, 0.0]
    assert list(rows[-3:]) == [facts["seconds"], facts["payload_bytes"], facts["interface_bytes"]]


def test_what_arrives_while_the_machine_pauses_at_the_beginning_is_not_lost_at_the_interface(monkeypatch):
    waiting = threading.Event()

    def paused(device):
        if waiting.is_set():
            waiting.clear()
            time.sleep(0.2)
        return interface_bytes(device)

    monkeypatch.setattr(file_transfer, "interface_bytes", paused)
    with serving("pyftpdlib", MIB) as (port, _):
        for _ in range(20):
            waiting.set()
            facts = run(spec_of(port, MIB)).facts
            if facts["transfers"] > 2:
                break
    assert facts["transfers"] > 2
    assert facts["interface_bytes"] > facts["payload_bytes"] - MIB


def test_there_is_a_row_for_each_second_and_the_most_of_one_is_among_them():
    with serving("pyftpdlib", MIB) as (port, _):
        report = run(spec_of(port, MIB, run_s=2.0))
    rows = array("d", report.samples)
    points = [tuple(rows[at : at + 3]) for at in range(0, len(rows), 3)]
    assert len(points) == 3
    # A busy machine reads later, and none reads earlier.
    assert all(at_s >= second - 0.001 for second, (at_s, _, _) in enumerate(points))
    rates = [8 * (after[2] - before[2]) / (after[0] - before[0]) for before, after in zip(points, points[1:])]  # noqa: B905, RUF007
    assert report.facts["interface_max_bit_s"] == pytest.approx(max(rates))


def test_other_content_than_the_servers_ends_the_run_with_its_place():
    with serving("pyftpdlib", 2 * MIB) as (port, folder):
        with (folder / "files" / LARGE_FILE).open("r+b") as file:
            file.seek(MIB + 4711)
            byte = file.read(1)
            file.seek(MIB + 4711)
            file.write(bytes([byte[0] ^ 1]))
        with pytest.raises(LabError) as caught:
            run(spec_of(port, 2 * MIB, run_s=60.0))
    assert f"at 127.0.0.1 port {port} sent other content: expected " in str(caught.value)
    assert f" at offset {MIB + 4711} of {2 * MIB} bytes, seen " in str(caught.value)


def test_a_file_of_another_size_is_other_content_or_a_failure():
    with serving("pyftpdlib", 2 * MIB) as (port, _):
        with pytest.raises(LabError, match=rf"expected {MIB} bytes, seen \d+ or more"):
            run(spec_of(port, MIB, run_s=60.0))
        report = run_until(spec_of(port, 3 * MIB), lambda report: report.failed)
    assert set(report.failed) == {"transfer ended early"}
    assert report.facts["transfers"] == 0
    assert report.attempted == report.failed["transfer ended early"] + 1


def test_a_wrong_password_is_named_by_the_servers_reply():
    with serving("pyftpdlib", MIB) as (port, _):
        wrong = FlowServer(port=port, users=["user0"], password="other")
        with pytest.raises(LabError) as caught:
            run(dataclasses.replace(spec_of(port, MIB, deadline_s=2.0), service=wrong))
    assert str(caught.value).startswith(f"no file arrived from the server at 127.0.0.1 port {port} (reply '530")
    assert str(caught.value).endswith("within 2 s")


def test_who_does_not_listen_is_named_after_the_deadline():
    port = free_port(["127.0.0.1"], *PORTS, random.Random())
    with pytest.raises(LabError, match=rf"port {port} \(transfer refused\) within 1 s"):
        run(spec_of(port, MIB, deadline_s=1.0))


class Breaking(threading.Thread):
    """FTP server of a file of 1 MiB that resets every second data connection in its middle, or hangs there."""

    def __init__(self, *, hangs=False):
        super().__init__(daemon=True)
        self.hangs, self.number = hangs, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.start()

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                control, _ = self.listener.accept()
                threading.Thread(target=self.session, args=(control,), daemon=True).start()

    def session(self, control):
        content = b"".join(FileContent(MIB).blocks())
        with contextlib.suppress(OSError), control, socket.create_server(("127.0.0.1", 0)) as data:
            control.sendall(b"220 here\r\n")
            for line in control.makefile("rb"):
                word = line.split()[0].upper()
                if word == b"EPSV":
                    control.sendall(b"229 Extended (|||%d|)\r\n" % data.getsockname()[1])
                elif word == b"RETR":
                    control.sendall(b"150 comes\r\n")
                    self.number += 1
                    peer, _ = data.accept()
                    self.serve(control, peer, content)
                else:
                    control.sendall(b"331 go on\r\n" if word == b"USER" else b"230 well\r\n")

    def serve(self, control, peer, content):
        with peer:
            if self.number % 2:
                peer.sendall(content)
                peer.shutdown(socket.SHUT_WR)
                control.sendall(b"226 done\r\n")
                return
            peer.sendall(content[: MIB // 2])
            if self.hangs:
                time.sleep(30)
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            control.close()


def test_transfers_that_break_off_are_failures_and_the_next_ones_begin():
    server = Breaking()
    report = run_until(
        spec_of(server.listener.getsockname()[1], MIB, run_s=2.0, warmup_s=0.0),
        lambda report: min(sum(report.failed.values()), report.facts["transfers"]) >= 2,
    )
    server.listener.close()
    assert set(report.failed) <= {"transfer reset", "transfer ended early"}
    assert sum(report.failed.values()) >= 2
    assert report.facts["transfers"] >= 2
    assert report.facts["longest_gap_s"] >= 0.2  # the pause after a failure


def test_a_server_that_hangs_ends_the_run_after_the_deadline(monkeypatch):
    monkeypatch.setattr(file_transfer, "_JOIN_S", 60.0)  # a session that is not ended would be waited for
    server = Breaking(hangs=True)
    port = server.listener.getsockname()[1]
    began = time.monotonic()
    with pytest.raises(LabError, match=rf"no file arrived from the server at 127\.0\.0\.1 port {port} .*within 0\.7 s"):
        run(spec_of(port, MIB, run_s=60.0, deadline_s=0.7))
    server.listener.close()
    assert time.monotonic() - began < 25


def test_an_agent_that_is_stopped_ends_the_run():
    class StopError(Exception):
        pass

    def alive():
        raise StopError

    with serving("pyftpdlib", MIB) as (port, _), pytest.raises(StopError):
        ENGINE.near(spec_of(port, MIB, run_s=60.0), alive)


def test_a_gibibyte_is_made_and_fetched_in_less_than_64_mib():
    """In a child, as the largest resident size is that of a process since its beginning."""
    size = 2**30
    if os.statvfs("/tmp").f_bavail * os.statvfs("/tmp").f_frsize < 2 * size:
        pytest.skip("less than 2 GiB are free in /tmp")
    reader, writer = os.pipe()
    if not (pid := os.fork()):
        try:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            with serving("proftpd" if not SERVERS["proftpd"].missing() else "pyftpdlib", size) as (port, _):
                moved, failed = 0.0, 0
                while moved <= 64 * MIB and not failed:
                    report = run(spec_of(port, size, run_s=0.3))
                    moved, failed = moved + report.facts["payload_bytes"], len(report.failed)
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            os.write(writer, f"{grown} {moved:.0f} {failed}".encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        grown, moved, failed = map(int, file.read().split())
    os.waitpid(pid, 0)
    assert grown < 64 * 1024  # ru_maxrss is in KiB
    assert moved > 64 * MIB
    assert failed == 0
