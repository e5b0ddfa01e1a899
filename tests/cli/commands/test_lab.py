"""`pytest-ipperf lab` for real: a lab that somebody enters and explores, and that leaves nothing behind."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import signal
import subprocess
import time
import tomllib
from pathlib import Path

import pytest

from pytest_ipperf import cli
from pytest_ipperf.agent.kernel.processes import survivors, tree
from pytest_ipperf.cli.commands import lab as lab_command
from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.lab.epoch.build import BuiltTestbed
from pytest_ipperf.lab.inventory.builtin import BUILTIN
from pytest_ipperf.lab.netns import namespaces
from pytest_ipperf.lab.tunnels.setup import Tunnels
from tests.support.needs import needs
from tests.support.pings import whole

ROOT = Path(__file__).parents[3]
PROGRAM = "import sys; from pytest_ipperf.cli import main; sys.exit(main(sys.argv[1:]))"
# Looks like a measurement while the program runs.
BUSY = """
import subprocess, sys
from pytest_ipperf.agent.host_state.lease import Lease
lease = Lease("somebody")
assert lease.acquire(1) == ""
sys.exit(subprocess.run(sys.argv[1:]).returncode)
"""
PAGE = (ROOT / "docs/lab.md").read_text(encoding="utf-8")


@pytest.fixture(params=["me", "nobody"])
def user(request):
    return request.getfixturevalue(request.param)


def found(pattern, text):
    match = re.search(pattern, text, re.MULTILINE)
    assert match, text
    return match[1]


class Kept:
    """A lab that is kept up, with its output."""

    def __init__(self, user, *arguments):
        self._user = user
        self.process = subprocess.Popen(
            user.argv(PROGRAM, "lab", *arguments), env=user.env, cwd="/", text=True,
            start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert self.process.stdout
        self.screen = ""
        while "takes the lab down" not in self.screen:
            line = self.process.stdout.readline()
            self.screen += line
            if not line:
                break
        self._seen = [each for level in tree(self.process.pid) for each in level]

    def line(self, host):
        """Return the command that enters a host."""
        return found(rf"^{host}\n +(nsenter .*)$", self.screen)

    def types(self, host, command, **settings):
        """Return the output of a command in another shell on a host, with a terminal's environment and nothing else."""
        argv = [*self._user.words, "sh", "-c", f"{self.line(host)} {command}"]
        return subprocess.run(
            argv, env=self._user.env, capture_output=True, text=True, check=False, timeout=60, **settings
        )

    def ended(self):
        """Return its exit status and last output."""
        self.process.wait(60)  # on a busy machine; its input has not ended unless it was closed
        said, _ = self.process.communicate()
        return self.process.returncode, said

    def left(self):
        """Return its processes that are finally left."""
        end = time.monotonic() + 60
        while (still := survivors(self._seen)) and time.monotonic() < end:
            time.sleep(0.01)
        return [command(each.pid) for each in still]


@pytest.fixture
def keep():
    if why := namespaces.unusable():
        pytest.skip(f"the lab cannot be built here: {why}")
    kept = []

    def make(user, *arguments):
        kept.append(Kept(user, *arguments))
        if "cannot be built here" in kept[-1].screen:
            pytest.skip(kept[-1].screen)
        return kept[-1]

    yield make
    for each in kept:
        each.process.kill()  # if a test has failed
        each.process.wait()
        for pipe in filter(None, (each.process.stdin, each.process.stdout)):
            pipe.close()
        assert each.left() == []


# --- a look around ----------------------------------------------------------------------------------------------------


def addresses_on(screen, host):
    """Return the addresses in its output, by device."""
    shown = found(rf"^{host}\n.*\n((?:  \S+ +mtu .*\n)+)", screen)
    return {device: sorted(words) for device, _, _, *words in map(str.split, shown.splitlines())}


def addresses_in(kept, host):
    devices = json.loads(kept.types(host, "ip -json address").stdout)
    shown = {
        each["ifname"]: sorted(f"{a['local']}/{a['prefixlen']}" for a in each["addr_info"] if a["scope"] == "global")
        for each in devices
    }
    return {device: addresses for device, addresses in shown.items() if addresses}


@needs("ping")
def test_all_that_is_told_is_there_and_every_arm_answers(keep, user):
    kept = keep(user, "lab.100mbit")
    screen = kept.screen
    assert screen.startswith("lab.100mbit is up, built in ")
    assert "its links: 100 Mbit/s\n\n  client eth0 --- eth0 router eth1 --- eth0 server\n" in screen
    assert max(map(len, screen.splitlines())) <= 80
    for host in ("client", "router", "server"):
        assert kept.types(host, "hostname").stdout == f"{host}\n"
        assert addresses_on(screen, host) == addresses_in(kept, host)
    pings = dict(re.findall(r"^  (ipv\S+) +(ping \S+)", screen, re.MULTILINE))
    assert [*pings] == ["ipv4", "ipv6", "ipv6-tunnel", "ipv6-isatap"]
    for ping in pings.values():
        assert whole(kept.types("client", f"{ping} -c 1 -w 20").stdout)
    kept.process.stdin.close()
    kept.process.stdin = None
    assert kept.ended() == (0, "\nlab.100mbit is taken down.\n")
    assert kept.left() == []


def timeless(screen):
    """Return the output without the parts that differ from lab to lab."""
    return re.sub(r"built in .*?;|-t \d+|  by .*|(?s:Load would disturb .*?\)\.\n)", "", screen)


@needs("ping", "tcpdump")
def test_the_first_example_shows_a_packet_in_another(keep, me):
    if os.geteuid():
        pytest.skip("tcpdump needs root")
    kept = keep(me)
    (shown,) = [each for each in re.findall(r"^```\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE) if "built in" in each]
    assert timeless(kept.screen) == timeless(shown)
    ping = found(r"on the client +(.*)", kept.screen)
    capture = found(r"on the router +(.*)", kept.screen)
    with subprocess.Popen(
        ["sh", "-c", f"{kept.line('router')} {capture} -c 2"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as tcpdump:
        try:
            assert any("listening on eth0" in line for line in tcpdump.stderr or ())
            kept.types("client", f"{ping} -c 1 -w 20")
            assert "IP6 2001:2:0:41::1 > 2001:2:0:41::2: ICMP6, echo request" in tcpdump.communicate(timeout=60)[0]
        finally:
            tcpdump.kill()


def test_who_measures_meanwhile_is_named(keep, me):
    """In a network of its own, as a lease of this machine would keep other tests waiting."""
    rights = [] if os.geteuid() == 0 else ["--map-root-user"]
    kept = keep(dataclasses.replace(me, words=("unshare", *rights, "--net", me.python, "-c", BUSY)), "pair")
    text = " ".join(kept.screen.partition("no lease is held.\n")[2].split())
    assert re.match(r"Load would disturb a measurement that is running now, by process \d+ of user 0 since .*\(", text)
    assert "client eth0 --- eth0 server\n" in kept.screen
    assert max(map(len, kept.screen.splitlines())) <= 80


def test_what_cannot_be_there_is_told_with_the_reason(keep, me):
    kept = keep(me, "pair", "--backend=userspace")
    text = " ".join(kept.screen.split())
    for arm, name in (("ipv6-tunnel", "tunnel"), ("ipv6-isatap", "isatap")):
        assert f"{arm} not available: nothing can carry {name} on testbed pair (userspace: " in text
    watcher = "as real root nsenter -t [0-9]+ -n" if os.geteuid() else "on the server"
    assert re.search(rf" on the client ping 2001:2:0:10::2 {watcher} tcpdump -ni eth0 ip6 ", text)
    assert max(map(len, kept.screen.splitlines())) <= 80


# --- its end ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_takes_it_down_in_order_with_all_that_runs_in_it(keep, me, number):
    kept = keep(me, "pair")
    shell = ["sh", "-c", f"{kept.line('server')} sh -c 'echo there; sleep 1000'"]
    with subprocess.Popen(shell, env=me.env, stdout=subprocess.PIPE, text=True) as inside:
        try:
            assert inside.stdout
            assert inside.stdout.readline() == "there\n"
            # As a terminal does at Ctrl-C or when closed, and as a user does.
            (os.kill if number == signal.SIGTERM else os.killpg)(kept.process.pid, number)
            assert kept.ended() == (0, "\npair is taken down.\n")
            assert inside.wait(60) != 0
        finally:
            inside.kill()
    assert kept.left() == []


def test_nothing_is_left_when_it_is_killed(keep, user):
    kept = keep(user, "pair")
    kept.process.kill()
    assert kept.ended()[0] == -signal.SIGKILL
    assert kept.left() == []


def test_a_lab_that_is_gone_is_told(keep, me):
    kept = keep(me, "pair")
    # A fork of the epoch's fork server shows the command of that.
    below = [(server, pid) for server in children(kept.process.pid) for pid in children(server)]
    agents = [pid for server, pid in below if command(server) and command(server) == command(pid)]
    os.kill(agents[0], signal.SIGKILL)
    status, said = kept.ended()
    assert status == 1
    assert re.fullmatch(
        r"pytest-ipperf: host (client|server) is gone, and the lab with it: its agent has been ended\n", said
    )
    assert kept.left() == []


def children(pid):
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def command(pid):
    with contextlib.suppress(OSError):  # it may end meanwhile
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def test_a_pipe_that_nobody_reads_is_no_trouble(me):
    shown = subprocess.run(
        ["sh", "-c", '"$@" </dev/null 2>&3 | :', "sh", *me.argv(PROGRAM, "lab", "pair")],
        env=me.env, check=False, stderr=subprocess.PIPE, text=True, pass_fds=(), timeout=120,
    )  # fmt: skip
    assert shown.stderr == ""


# --- errors -----------------------------------------------------------------------------------------------------------


def said(capsys, *arguments):
    status = cli.main(arguments)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    return status, shown.err.removeprefix("pytest-ipperf: ").rstrip()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "the following arguments are required: COMMAND; see pytest-ipperf --help"),
        (["show"], "the following arguments are required: WHAT; see pytest-ipperf show --help"),
        (["lab", "x"], "testbed 'x' does not exist; there are lab, pair, and labs with any rate, such as lab.100mbit"),
        (
            ["lab", "lab.100mbt"],
            "rate '100mbt' is not a number of bits a second such as 512kbit, 100mbit or 1gbit",
        ),
        (["lab", "pair.1kbit"], "rate '1kbit' is not between 256kbit and 100gbit"),
        (["lab", "loopback"], "testbed 'loopback' is not a lab, as its hosts exist without it; there are lab, pair"),
        (["lab", "lab", "y"], "unrecognized arguments: y; see pytest-ipperf lab --help"),
        (
            ["lab", "far", "--ipperf-hosts=/nowhere/hosts.ini"],
            "/nowhere/hosts.ini: cannot be read (No such file or directory); name an inventory with --ipperf-hosts",
        ),
    ],
)
def test_wrong_usage_is_one_sentence(capsys, tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    assert said(capsys, *arguments) == (4, sentence)


def test_what_does_not_exist_is_told_with_what_does(capsys):
    for option in ("--ipperf-backend", "--backend"):
        output = "--ipperf-backend: 'magic' does not exist; there are auto, kernel, ebpf, userspace"
        assert said(capsys, "lab", f"{option}=magic") == (4, output)
    status, output = said(capsys, "lob")
    assert status == 4
    assert output.startswith("argument COMMAND: invalid choice: 'lob' (choose from ")


def test_an_inventory_that_nobody_named_is_read_for_the_names_that_it_may_have(capsys, tmp_path, monkeypatch):
    (tmp_path / "hosts.ini").write_text("[webservers]\nalpha\n")
    monkeypatch.chdir(tmp_path)
    for hosts in ("", "hosts.ini"):
        assert lab_command._testbed("pair.10mbit", hosts).links.rate_bit_s == 1e7
    status, output = said(capsys, "lab", "office")
    assert status == 4
    assert "hosts.ini" in output
    (tmp_path / "hosts.ini").write_text("[testbed office]\nclient = a\nserver = a\n\n[host a]\nipv4 = 192.0.2.1\n")
    assert said(capsys, "lab", "office") == (
        4, "testbed 'office' is not a lab, as its hosts exist without it; there are lab, pair",
    )  # fmt: skip


def test_a_lab_of_ones_own_is_found_with_a_rate_of_its_own_or_another(capsys, tmp_path, monkeypatch):
    (tmp_path / "hosts.ini").write_text("[lab far]\nnodes = 2\ndelay = 20ms\n")
    monkeypatch.chdir(tmp_path)
    assert str(lab_command._testbed("far", "").links) == "delay 20 ms"
    assert str(lab_command._testbed("far.1mbit", "").links) == "1 Mbit/s, delay 20 ms"
    assert said(capsys, "lab", "near") == (
        4, "testbed 'near' does not exist; there are lab, pair, far, and labs with any rate, such as lab.100mbit",
    )  # fmt: skip


def test_a_lab_that_cannot_be_built_here_is_one_sentence(capsys, monkeypatch):
    monkeypatch.setattr(namespaces, "_way_to_root", lambda: (False, "no rights for namespaces (no)"))
    assert said(capsys, "lab") == (
        1, "testbed lab cannot be built here: no rights for namespaces (no)",
    )  # fmt: skip


@pytest.mark.skipif(bool(namespaces.unusable()), reason=f"the lab cannot be built: {namespaces.unusable()}")
def test_ctrl_c_before_it_is_up_is_reported_and_leaves_the_signals_as_they_were(capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    before = [signal.getsignal(each) for each in lab_command._SIGNALS]
    monkeypatch.setattr(lab_command, "build_testbed", interrupted)
    assert said(capsys, "lab") == (2, "interrupted before the lab was up; nothing is left of it")
    assert [signal.getsignal(each) for each in lab_command._SIGNALS] == before


def test_a_signal_that_its_starter_ignores_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with lab_command._signals_interrupt():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_the_lines_to_type_have_80_columns_where_processes_have_seven_digits():
    entry = ["nsenter", "--target", "1234567", "--user", "--preserve-credentials", "--mount", "--pid", "--net", "--uts"]
    hosts = {host.name: [*entry, "env"] for host in BUILTIN["lab"].hosts}
    lab = BuiltTestbed(hosts, {}, Tunnels({"tunnel": "userspace"}))
    lines = [lab_command._entry_text(hosts["client"]), *lab_command._example(BUILTIN["lab"], lab)]
    assert lines[0] == "nsenter -t 1234567 -U --preserve-credentials -m -p -n -u"
    assert max(map(len, lines)) <= 78


def test_hosts_that_do_not_answer_are_told():
    with pytest.raises(LabError, match="the lab's hosts cannot be asked for their addresses: "):
        list(lab_command._devices(["false"]))


def test_the_page_has_the_addresses_of_the_labs():
    rows = re.findall(r"^\| `(ipv\S+)` \| (\S+) \| (\S+) \| (\S+) \|$", PAGE, re.MULTILINE)
    assert rows
    for name, client, *servers in rows:
        for testbed, server in zip((BUILTIN["lab"], BUILTIN["pair"]), servers, strict=True):
            path = testbed.path(Arm.parse(name))
            assert (path.client, path.server) == (client, server)


def test_the_package_installs_the_program():
    shown = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert shown == {"pytest-ipperf": "pytest_ipperf.cli:main"}
