"""Hosts changed and restored, each a network namespace: however the agent ends, and whoever else changes them."""

from __future__ import annotations

import ast
import textwrap

import pytest

from pytest_ipperf.agent.host_state import restorer, state_dir
from pytest_ipperf.agent.host_state.snapshot import differences

# Start of all tests: a host with a link on which nothing is solicited or announced.
UP = """
for each in all default; do echo 1 > /proc/sys/net/ipv6/conf/$each/addr_gen_mode; done
echo 0 > /proc/sys/net/ipv6/conf/default/router_solicitations
ip link set lo up; ip link add va type veth peer name vb; ip link set va up; ip link set vb up
ip addr add 192.0.2.1/24 dev va; ip addr add 2001:db8::1/64 dev va nodad; ip route add 198.51.100.0/24 via 192.0.2.9
"""
HOST = """
import contextlib, json, os, signal, subprocess, sys, time
from pathlib import Path
from pytest_ipperf.agent.host_state import undo_log
from pytest_ipperf.agent.host_state import state_dir
from pytest_ipperf.agent.host_state import dirty_marks
from pytest_ipperf.agent.host_state.changes import Changes
from pytest_ipperf.agent.host_state.snapshot import snapshot
from pytest_ipperf.core.portable.errors import LabError

CONF = Path("/proc/sys/net/ipv6/conf")

def sh(text):
    subprocess.run(["sh", "-ec", text], check=True)

def change(changes, name="added"):
    changes.run(["ip", "link", "add", name, "type", "ifb"], ["ip", "link", "del", name])
    changes.run(["ip", "addr", "add", "2001:db8:1::1/64", "dev", name, "nodad"], None)
    for kind, what in (("addr", "203.0.113.1/24"), ("route", "2001:db8:2::/64")):
        changes.run(*(["ip", kind, verb, what, "dev", "va"] for verb in ("add", "del")))
    changes.write("net/ipv6/conf/va/hop_limit", "33")

kept = []

def changed():
    '''By an agent that still holds the line to its rollback helper when it ends.'''
    kept.append(Changes())
    change(kept[-1])

def rollback_helper():
    '''The process of the rollback helper that lives in this network.'''
    own = os.stat("/proc/self/ns/net").st_ino
    for found in Path("/proc").glob("[0-9]*"):
        try:
            named = (found / "cmdline").read_bytes().endswith(b"\\0pytest-ipperf-rollback\\0")
            if named and os.stat(found / "ns/net").st_ino == own:
                return int(found.name)
        except OSError:
            pass
    return 0

def until(held):
    end = time.monotonic() + 20
    while not (found := held()) and time.monotonic() < end:
        time.sleep(0.01)
    return found

def as_agent(code, number=signal.SIGKILL):
    '''Runs code in a process of its own that kills itself after it.'''
    read, write = os.pipe()
    agent = os.fork()
    if not agent:
        os.setsid()
        try:
            code()
            os.killpg(0, number)
        finally:
            os._exit(1)
    return os.waitpid(agent, 0)[1]

before = snapshot()
"""


@pytest.fixture(autouse=True)
def run_folder(tmp_path, monkeypatch):
    """Replace the machine's own /run."""
    monkeypatch.setenv("IPPERF_RUN", str(tmp_path / "run"))
    return tmp_path / "run"


@pytest.fixture
def host(isolated):
    """Run code on a new host; return the value that it printed last."""

    def run(code, up=UP):
        return ast.literal_eval(isolated(HOST + textwrap.dedent(code), up).splitlines()[-1])

    return run


def test_what_is_changed_is_undone_in_reverse_order(host, run_folder):
    found = host("""
        changes = Changes()
        change(changes)
        during = snapshot()
        print([sorted({*during} - {*before}), changes.undo(), snapshot() == before, changes.undo()])
        until(lambda: not rollback_helper()) or sys.exit("a rollback helper is left")
    """)
    assert "device added" in found[0]
    assert found[0] == [
        "address 2001:db8:1::1/64 of device added",
        "address 203.0.113.1/24 of device va",
        "device added",
        "route 2001:db8:2::/64 dev va metric 1024",
        "route 203.0.113.0/24 dev va proto kernel scope link src 203.0.113.1",
        "setting net/ipv4/conf/added/forwarding",
        "setting net/ipv6/conf/added/forwarding",
    ]
    assert found[1:] == [[], True, []]
    assert list(run_folder.iterdir()) == []


def test_it_can_be_used_again(host):
    assert host("""
        changes = Changes()
        change(changes)
        first = changes.undo()
        change(changes)
        print([first, changes.undo(), snapshot() == before])
    """) == [[], [], True]


def test_a_host_of_which_nothing_is_changed_has_no_rollback_helper(host):
    assert host("changes = Changes(); print([rollback_helper(), changes.undo()])") == [0, []]


def test_a_command_that_fails_is_told_in_its_own_words_and_not_undone(host):
    """Otherwise somebody else's object, which made the command fail, would be removed."""
    found = host("""
        changes = Changes()
        try:
            changes.run(["ip", "link", "add", "va", "type", "ifb"], ["ip", "link", "del", "va"])
        except LabError as error:
            print([str(error), changes.undo(), snapshot() == before])
    """)
    assert found == ["ip link add va type ifb: RTNETLINK answers: File exists", [], True]


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (
            "net/ipv6/conf/va/hop_limit",
            "-5",
            "/proc/sys/net/ipv6/conf/va/hop_limit cannot be set to -5: Invalid argument",
        ),
        ("net/nowhere", "1", "/proc/sys/net/nowhere cannot be read: No such file or directory"),
    ],
)
def test_a_setting_that_cannot_be_made_is_named(host, path, value, words):
    found = host(f"""
        changes = Changes()
        try:
            changes.write({path!r}, {value!r})
        except LabError as error:
            print([str(error), changes.undo(), snapshot() == before])
    """)
    assert found == [words, [], True]


def test_a_program_that_is_missing_is_named_with_its_package(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert restorer.run(["ip", "link"]) == "program 'ip' is not installed (Debian: apt-get install iproute2)"
    assert restorer.run(["no-such"]) == "program 'no-such' is not installed"


def test_who_may_not_change_anything_is_told_who_may(host):
    found = host("""
        from pytest_ipperf.agent.host_state import restorer as room
        try:
            os.setresuid(65534, 65534, 65534)
            print([room.run(["ip", "link", "del", "va"]), room.run([":write", f"{CONF}/va/mtu", "1400"])])
        except OSError:  # in a user namespace there is nobody else
            print([])
    """)
    assert found in (
        [],
        [
            "ip link del va: RTNETLINK answers: Operation not permitted; it takes root",
            "/proc/sys/net/ipv6/conf/va/mtu cannot be set to 1400: Permission denied; it takes root",
        ],
    )


def test_a_setting_that_is_as_wanted_is_left_alone(host):
    """So a setting that somebody changes meanwhile is not overwritten."""
    assert host("""
        changes = Changes()
        changes.write("net/ipv6/conf/va/hop_limit", "64")
        sh("echo 12 > /proc/sys/net/ipv6/conf/va/hop_limit")
        print([changes.undo(), (CONF / "va/hop_limit").read_text().strip()])
    """) == [[], "12"]


def test_forwarding_is_given_back_to_each_device(host):
    """Writing `all` changes the setting of every device."""
    found = host("""
        sh("echo 1 > /proc/sys/net/ipv6/conf/vb/forwarding; echo 0 > /proc/sys/net/ipv4/conf/va/forwarding")
        sh("echo 1 > /proc/sys/net/ipv4/conf/default/forwarding")
        before, changes = snapshot(), Changes()
        changes.write("net/ipv6/conf/all/forwarding", "1")
        changes.write("net/ipv4/ip_forward", "1")
        during = [(CONF / each / "forwarding").read_text().strip() for each in ("all", "default", "va", "vb")]
        print([during, changes.undo(), snapshot() == before])
    """)
    assert found == [["1"] * 4, [], True]


def test_an_agent_that_is_killed_with_its_group_leaves_nothing(host, run_folder):
    found = host("""
        left = []
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            as_agent(changed, number)
            left.append(until(lambda: snapshot() == before and not rollback_helper()))
        print(left)
    """)
    assert found == [True] * 4
    assert list(run_folder.iterdir()) == []


def test_an_agent_that_is_killed_at_any_moment_leaves_nothing(host):
    """Also during a command, which may not finish after the rollback."""
    assert (
        host("""
        left = []
        for delay_s in (0.03, 0.06, 0.075, 0.08, 0.085, 0.09, 0.1):
            agent = os.fork()
            if not agent:
                changes = Changes()
                while True:
                    change(changes, "one")
                    changes.run(["ip", "link", "del", "one"], None)
                    for kind, what in (("addr", "203.0.113.1/24"), ("route", "2001:db8:2::/64")):
                        changes.run(["ip", kind, "del", what, "dev", "va"], None)
            time.sleep(delay_s)
            os.kill(agent, signal.SIGKILL)
            os.waitpid(agent, 0)
            left.append(until(lambda: not rollback_helper()) and snapshot() == before)
        print(left)
    """)
        == [True] * 7
    )


def test_a_rollback_helper_is_not_ended_politely(host):
    assert host("""
        changes = Changes()
        change(changes)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            os.kill(rollback_helper(), number)
        time.sleep(0.05)
        print([bool(rollback_helper()), changes.undo(), snapshot() == before])
    """) == [True, [], True]


def test_an_agent_that_is_told_to_go_in_the_midst_of_a_change_has_it_undone(host):
    """The rollback helper's late reply to the change must not be taken for the reply to the next request."""
    found = host("""
        class Gone(Exception):
            pass
        def go(*_):
            raise Gone
        signal.signal(signal.SIGALRM, go)
        changes = Changes()
        change(changes)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        try:
            changes.run(["sh", "-c", "sleep 0.2; ip link add late type ifb"], ["ip", "link", "del", "late"])
        except Gone:
            print([changes.undo(), snapshot() == before])
    """)
    assert found == [[], True]


def test_another_rollback_helper_does_what_one_that_was_killed_cannot(host, run_folder):
    found = host("""
        changes = Changes()
        change(changes)
        os.kill(rollback_helper(), signal.SIGKILL)
        until(lambda: not rollback_helper())
        try:
            change(changes, "more")
        except LabError as error:
            print([str(error), changes.undo(), snapshot() == before])
    """)
    assert found == ["the process that changes this host and restores it was killed", [], True]
    assert list(run_folder.iterdir()) == []


def test_it_does_so_without_an_undo_log(host, run_folder):
    """The agent knows what its changes were."""
    run_folder.touch()
    assert host("""
        changes = Changes()
        change(changes)
        os.kill(rollback_helper(), signal.SIGKILL)
        until(lambda: not rollback_helper())
        print([changes.undo(), snapshot() == before])
    """) == [[], True]


def test_it_does_so_when_its_death_is_seen_only_by_the_order(host):
    """A killed process may keep its end of the pipe open for a moment."""
    assert host("""
        changes = Changes()
        change(changes)
        changes._pipe.alive = lambda: True
        os.kill(rollback_helper(), signal.SIGKILL)
        until(lambda: not rollback_helper())
        print([changes.undo(), snapshot() == before])
    """) == [[], True]


# The kernel takes a moment to release the lock of a killed process, so there is a next agent, and one after it.
BOTH_KILLED = """
def both_killed():
    changed()
    os.kill(rollback_helper(), signal.SIGKILL)
as_agent(both_killed)
left = snapshot() != before
"""


def test_the_next_agent_undoes_what_both_have_left_that_were_killed(host, run_folder):
    assert host(BOTH_KILLED + "print([left, until(lambda: Changes() and snapshot() == before)])") == [True, True]
    assert list(run_folder.iterdir()) == []


def test_what_it_cannot_undo_marks_the_host(host, run_folder):
    found = host(
        BOTH_KILLED
        + "sh('ip link set added name other')\nprint([until(lambda: Changes() and dirty_marks.dirty_reason())])"
    )
    left = 'device other is still there; ip link del added: Cannot find device "added"'
    assert found == [f"an earlier measurement has not restored it: {left}"]


# A folder of 32 KiB for the undo log, which can be filled; the rest of the undo log's own page still takes records.
SMALL = """
folder = Path(os.environ["IPPERF_RUN"])
sh("mkdir -m 700 $IPPERF_RUN; mount -t tmpfs -o size=32k,mode=700 none $IPPERF_RUN")

def fill():
    with contextlib.suppress(OSError), open(folder / "fill", "wb", 0) as file:
        while True:
            file.write(bytes(4096))

changes = Changes()
"""
FULL = "no undo log of changes to this host can be kept: No space left on device: "
ROOM = "; make room there, or remove what stands in its way"


def test_nothing_is_changed_that_the_undo_log_has_no_room_for(host):
    """The kernel would write the beginning of a record that does not fit."""
    found = host(
        SMALL
        + """
change(changes)
fill()
path = next(folder.glob("journal*"))
for number in range(1, 100):
    given = [f"2001:db8:9::{number:x}/128", "dev", "va"]
    try:
        changes.run(["ip", "addr", "add", *given, "nodad"], ["ip", "addr", "del", *given])
    except LabError as error:
        said = str(error)
        break
noted = [json.loads(line) for line in path.read_text().splitlines()]
given = [f"address 2001:db8:9::{each:x}/128 of device va" in snapshot() for each in (number - 1, number)]
print([said, str(path), len(noted) > 10, given, changes.undo(), snapshot() == before])
"""
    )
    assert found == [f"{FULL}{found[1]}{ROOM}", found[1], True, [True, False], [], True]


def test_a_full_folder_is_named_before_anything_is_changed(host):
    found = host(
        SMALL
        + """
fill()
try:
    change(changes)
except LabError as error:
    print([str(error), changes.undo(), snapshot() == before])
"""
    )
    assert found[0].startswith(FULL)
    assert found[0].endswith(ROOM)
    assert found[1:] == [[], True]


def test_a_command_that_fails_when_the_folder_is_full_is_not_undone_by_the_next_agent_either(host):
    found = host(
        SMALL
        + """
def refused():
    change(changes)
    noted = next(folder.glob("journal*")).stat().st_size
    do, undo = ["sh", "-c", f"head -c 1M /dev/zero > {folder}/fill; exit 3 #"], ["ip", "link", "del", "va"]
    record = json.dumps({"note": {"do": do, "undo": [undo], "made": []}}) + "\\n"
    do[-1] += "x" * (-(noted + len(record)) % 4096)  # so that it ends with a page
    with contextlib.suppress(LabError):
        changes.run(do, undo)
    os.kill(rollback_helper(), signal.SIGKILL)
as_agent(refused)
print([until(lambda: Changes() and snapshot() == before), dirty_marks.dirty_reason()])
"""
    )
    assert found == [True, ""]


def test_a_host_that_cannot_be_marked_keeps_its_undo_log_and_says_so(host):
    found = host(
        SMALL
        + BOTH_KILLED
        + """
path = next(folder.glob("journal*"))
sh("ip link set added name other")
fill()
def said():
    try:
        Changes()
    except LabError as error:
        return str(error)
full = until(said)
(folder / "fill").unlink()
Changes()
print([full, path.exists(), dirty_marks.dirty_reason()])
"""
    )
    left = 'device other is still there; ip link del added: Cannot find device "added"'
    assert found[0].startswith(f"it is not restored ({left}), which cannot be noted: No space left on device: ")
    assert found[0].endswith(ROOM)
    assert not found[1]
    assert left in found[2]


TORN = """
def torn(change):
    path = next(Path(os.environ["IPPERF_RUN"]).glob("journal*"))
    path.write_text("".join(change(path.read_text().splitlines(True))))
    return path
"""


def test_what_can_be_read_of_a_torn_undo_log_is_undone_and_the_host_marked(host, run_folder):
    found = host(
        BOTH_KILLED
        + TORN
        + """
def half(lines):
    # The record of an address runs into the one after it.
    number = next(number for number, line in enumerate(lines) if '"203.0.113.1/24"' in line)
    return [*lines[:number], lines[number][:40], *lines[number + 1 :]]
path = torn(half)
found = until(lambda: Changes() and dirty_marks.dirty_reason())
left = sorted({*snapshot()} ^ {*before})
print([left, snapshot()["device va"] == before["device va"], found, str(path)])
"""
    )
    left, same, said, path = found
    assert left == [
        "address 203.0.113.1/24 of device va",
        "route 203.0.113.0/24 dev va proto kernel scope link src 203.0.113.1",
    ]
    assert same
    assert f"it is unknown whether all is restored: of the undo log {path} 1 of " in said
    assert 'lines could not be read, such as \'{"note": {"do": [' in said
    assert [each.name.partition("-")[0] for each in run_folder.iterdir()] == ["unrestored"]


def test_an_undo_log_that_cannot_be_read_marks_the_host_and_no_more(host):
    """It is unknown whether it is from this boot of the host."""
    found = host(
        BOTH_KILLED
        + TORN
        + """
path = torn(lambda lines: ["no", *lines])
during = snapshot()
print([until(lambda: Changes() and dirty_marks.dirty_reason()), str(path), snapshot() == during, path.exists()])
"""
    )
    assert f"of the undo log {found[1]} 1 of " in found[0]
    assert found[2:] == [True, False]


@pytest.mark.parametrize(
    ("make", "words"),
    [("ln -s /proc/version $path", "Too many levels of symbolic links"), ("mkdir $path", "Is a directory")],
)
def test_what_stands_in_a_undo_logs_place_marks_the_host_once(host, make, words):
    found = host(f"""
        path = Path(os.environ["IPPERF_RUN"], f"journal{{state_dir.netns_suffix()}}")
        sh(f"mkdir -m 700 $IPPERF_RUN; path={{path}}; {make}")
        Changes()
        first, changes = dirty_marks.dirty_reason(), Changes()
        try:
            change(changes)
        except LabError as error:
            print([first, dirty_marks.dirty_reason() == first, str(path), str(error), snapshot() == before])
    """)
    first, again, path, error, same = found
    assert f"it is unknown whether all is restored: the undo log {path} cannot be read: {words}; remove it" in first
    assert again
    assert error == f"no undo log of changes to this host can be kept: {words}: {path}{ROOM}"
    assert same


def test_a_rollback_helper_that_does_not_answer_marks_the_host_until_it_has_put_all_back(host, run_folder):
    found = host("""
        from pytest_ipperf.agent.host_state import changes as room
        changes, found = Changes(), []
        for number in (signal.SIGCONT, signal.SIGKILL):
            change(changes)
            stopped = rollback_helper()
            os.kill(stopped, signal.SIGSTOP)
            room.PATIENCE_S = 0.2
            said = changes.undo()
            room.PATIENCE_S = 20.0
            found += [said, dirty_marks.dirty_reason()]
            os.kill(stopped, number)
            until(lambda: not rollback_helper())
            until(lambda: Changes() and not dirty_marks.dirty_reason())
            found += [dirty_marks.dirty_reason(), snapshot() == before]
        print(found)
    """)
    (said,) = found[0]
    assert said.startswith("process pytest-ipperf-rollback, which restores this host, gave no answer in ")
    assert found[1] == f"an earlier measurement has not restored it: {said}"
    assert found[2:] == ["", True, *found[:4]]
    assert list(run_folder.iterdir()) == []


def test_an_undo_log_is_its_owners_alone(host, run_folder):
    found = host("""
        os.umask(0)
        changes = Changes()
        change(changes)
        folder = Path(os.environ["IPPERF_RUN"])
        print([oct(each.stat().st_mode & 0o777) for each in (folder, *folder.iterdir())])
    """)
    assert found == ["0o711", "0o600"]
    run_folder.chmod(0o777)
    assert host("changes = Changes(); change(changes); print(len(os.listdir(os.environ['IPPERF_RUN'])))") == 0


def test_an_undo_log_of_another_network_or_time_is_none_of_ours(host, run_folder):
    code = """
        own = state_dir.netns_suffix()
        path = Path(os.environ["IPPERF_RUN"], f"journal{%s}")
        path.parent.mkdir(exist_ok=True)
        note = {"do": ["true"], "undo": [["ip", "link", "del", "va"]], "made": []}
        records = ({"boot": %s}, {"before": before}, {"note": note})
        path.write_text("".join(json.dumps(each) + "\\n" for each in records))
        Changes()
        print([snapshot() == before, path.exists()])
    """
    assert host(code % ("own", "state_dir.boot_id()")) == [False, False]
    assert host(code % ("own", "'another'")) == [True, False]
    assert host(code % ("own + '1'", "state_dir.boot_id()")) == [True, True]


def test_what_networks_that_are_gone_have_left_is_removed(host, run_folder):
    if not state_dir.in_host_pidns():
        pytest.skip("only who sees all processes of the machine can tell which networks are gone")
    host(BOTH_KILLED + "print(0)")
    (own,) = run_folder.iterdir()
    left = own.with_suffix(".1")  # the next network may get the inode of the one that is gone
    own.rename(left)
    found = host("changes = Changes(); change(changes); print([os.listdir(os.environ['IPPERF_RUN'])])")
    assert left.name not in found[0]
    assert len(found[0]) == 1


def test_only_one_changes_a_host_at_a_time(host):
    found = host("""
        changes = Changes()
        change(changes)
        try:
            undo_log.claim_undo_log(0.05)
        except LabError as error:
            print([str(error).partition("; ")[0], changes.undo()])
    """)
    assert found[0].startswith("another agent is changing or restoring this host: ")
    assert found[1] == []


@pytest.mark.parametrize(
    ("meanwhile", "sentences"),
    [
        ("ip link del added; ip addr del 203.0.113.1/24 dev va; ip route del 2001:db8:2::/64 dev va", []),
        (
            """ip addr del 2001:db8::1/64 dev va; ip route add 2001:db8:8::/64 dev va; ip link set vb mtu 1400
            ip link add vc type ifb; ip link set vc up; ip addr add 2001:db8:7::1/64 dev vc""",
            [],
        ),
        (
            "ip link set added name other",
            ["device other is still there", 'ip link del added: Cannot find device "added"'],
        ),
        (
            "ip route del 2001:db8:2::/64 dev va; ip route add 2001:db8:2::/64 dev vb",
            [
                "route 2001:db8:2::/64 dev vb metric 1024 is still there",
                "ip route del 2001:db8:2::/64 dev va: RTNETLINK answers: No such process",
            ],
        ),
        ("ip addr add 203.0.113.1/32 dev vb", ["address 203.0.113.1/32 of device vb is still there"]),
    ],
)
def test_what_others_do_meanwhile_is_told_where_it_concerns_us(host, run_folder, meanwhile, sentences):
    found = host(f"""
        changes = Changes()
        change(changes)
        sh({meanwhile!r})
        print([changes.undo(), dirty_marks.dirty_reason()])
    """)
    assert found[0] == sentences
    assert bool(found[1]) == bool(sentences)


def test_what_a_command_does_not_take_back_is_told(host):
    found = host("""
        changes = Changes()
        changes.run(["ip", "link", "set", "va", "mtu", "1400"], None)
        changes.run(["tc", "qdisc", "add", "dev", "vb", "root", "pfifo"], ["tc", "qdisc", "del", "dev", "vb", "root"])
        changes.run(["ip", "-6", "rule", "add", "from", "2001:db8::1", "lookup", "77"], None)
        print(changes.undo())
    """)
    assert found == [
        "IPv6 rule priority 32765 src 2001:db8::1 table 77 is still there",
        "device va: MTU is 1400 and was 1500",
    ]


def test_addresses_and_routes_that_a_command_took_along_are_told(host):
    """A device that is set down loses its IPv6 addresses, whoever added them."""
    found = host("""
        changes = Changes()
        changes.run(["ip", "link", "set", "va", "down"], ["ip", "link", "set", "va", "up"])
        print(changes.undo())
    """)
    assert found == [
        "address 2001:db8::1/64 of device va is missing",
        "route 198.51.100.0/24 via 192.0.2.9 dev va is missing",
        "route 2001:db8::/64 dev va proto kernel metric 256 is missing",
    ]


def test_other_programs_are_taken_at_their_word(host):
    """The snapshot does not show their effects."""
    assert host("""
        changes = Changes()
        changes.run(["true"], ["sh", "-c", "echo no way >&2; exit 3"])
        print(changes.undo())
    """) == ["sh -c echo no way >&2; exit 3: no way"]


def test_an_agent_that_restores_says_what_is_left_and_marks_the_host(host, run_folder):
    found = host("""
        from pytest_ipperf.agent.rpc.channel import Channel
        from pytest_ipperf.agent.rpc.server import Agent
        results = []
        for meanwhile in ("true", "ip link set added name other"):
            with contextlib.ExitStack() as stack:
                agent = Agent(stack, None, Channel(print))
                change(agent._handlers["create_tunnel"].__self__._changes)
                sh(meanwhile)
                results.append((agent._handlers["restore"](), bool(dirty_marks.dirty_reason())))
        print(results)
    """)
    left = ["device other is still there", 'ip link del added: Cannot find device "added"']
    assert found == [([], False), (left, True)]


def test_a_mark_goes_with_a_reboot_or_by_hand(host, run_folder):
    found = host("""
        dirty_marks.mark_dirty(["a is missing"])
        dirty_marks.mark_dirty(["b is still there"])
        said = [dirty_marks.dirty_reason()]
        (mark,) = Path(os.environ["IPPERF_RUN"]).iterdir()
        mark.write_text("another-boot\\na is missing\\n")
        print([*said, dirty_marks.dirty_reason(), mark.exists()])
    """)
    assert found[0] == "an earlier measurement has not restored it: a is missing; b is still there"
    assert found[1:] == ["", False]


def test_who_changes_nothing_finds_no_difference():
    before = {"device a": {"kind": "device", "device": "a", "name": "a", "state": {}, "fleeting": False, "index": 1}}
    assert differences(before, {}, [], []) == differences({}, before, [["ip", "link", "add", "b"]], []) == []
    assert differences(before, {}, [["ip", "link", "del", "a"]], []) == ["device a is missing"]


def test_a_host_without_ip_is_not_changed(host, tmp_path):
    """Its state before is unknown there."""
    programs = tmp_path / "programs"
    programs.mkdir()
    found = host(f"""
        from pytest_ipperf.agent.host_state import changes as room
        room.search_path = lambda: {{"PATH": {str(programs)!r}}}
        changes, said = Changes(), set()
        for _ in range(2):
            try:
                changes.write("net/ipv6/conf/va/hop_limit", "33")
            except LabError as error:
                said.add(str(error))
        print([*said, (CONF / "va/hop_limit").read_text().strip(), changes.undo()])
    """)
    assert found == ["program 'ip' is not installed (Debian: apt-get install iproute2)", "64", []]
