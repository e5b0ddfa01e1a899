"""Hosts that are started anew: what a reboot looks like from here, and one that is none."""

from __future__ import annotations

import json
import textwrap
import time

import pytest

from tests.support.hosts.machines import sshd_program

# What a reboot does to a machine in small: its sshd goes and all that came by it, and a second later it is back.
REBOOT = """
    echo "$#" "$@" > /tmp/words
    echo "boot-$$-$(date +%s%N)" > /tmp/boot_id
    setsid sh -c '
        sleep 0.2
        for each in $(ls /proc | grep "^[0-9]"); do
            if grep -qs "^sshd" /proc/$each/comm; then kill -9 "$each"; fi
        done
        sleep 1
        mount --bind /tmp/boot_id /proc/sys/kernel/random/boot_id
        exec SSHD -D -E FOLDER/sshd.log -f FOLDER/sshd_config
    ' </dev/null >/dev/null 2>&1 &
"""
START = """
import json, sys
from pathlib import Path
from pytest_ipperf.core.portable.errors import IpperfError
from pytest_ipperf.lab.agents import reboot as rebooting
from pytest_ipperf.lab.inventory import read_inventory
from pytest_ipperf.lab.agents.reboot import reboot_hosts
rebooting._SILENT_S = 2.0
leased = []
testbed = read_inventory(Path(sys.argv[1]))[sys.argv[3]]
try:
    within = {"down_s": float(sys.argv[2]), "back_s": float(sys.argv[4])}
    took = reboot_hosts(testbed, lambda agent: leased.append(agent.host.name), **within)
except IpperfError as error:
    print(json.dumps([str(error), leased]))
else:
    print(json.dumps([took, leased]))
"""


def give_reboot(stands, *names):
    """Hosts with a reboot, which is a script in their homes."""
    for name in names:
        home = stands.hosts[name].home
        text = textwrap.dedent(REBOOT).replace("SSHD", sshd_program()).replace("FOLDER", str(home.parent))
        (home / "reboot").write_text(text)
        stands.change(name, reboot=f"sh {home}/reboot 'now  then' $HOME;id")


def reboot_hosts(stands, testbed="bed1", *, down_s=60.0, back_s=60.0):
    """What `reboot_hosts` gives on the controller, or its sentence; and the hosts that it has leased before."""
    reported = [str(stands.inventory), str(down_s), testbed, str(back_s)]
    status, said, errors = stands.program("-c", START, *reported)
    assert status == 0, errors
    return json.loads(said)


def boot(host):
    return host.run("cat", "/proc/sys/kernel/random/boot_id").strip()


def test_all_hosts_are_back_in_another_boot(farm):
    """One of them goes without a word, as if it had lost its power."""
    stands = farm()
    names = list(stands.hosts)
    give_reboot(stands, *names)
    script = stands.hosts["server1"].home / "reboot"
    text = script.read_text().replace("sleep 0.2", "sleep 0.2; ip link set control down")
    script.write_text(text.replace("exec", "ip link set control up; exec"))
    before = {name: boot(stands.hosts[name]) for name in names}
    took, leased = reboot_hosts(stands)
    assert leased == sorted(names)
    assert sorted(took) == sorted(names)
    assert all(1.0 < seconds < 60.0 for seconds in took.values())
    for name in names:
        assert boot(stands.hosts[name]) != before[name]
        assert (stands.hosts[name].tmp / "words").read_text() == "2 now  then $HOME;id\n"  # no shell has read them


@pytest.mark.evidence
def test_a_host_that_does_not_reboot_is_told(farm):
    stands = farm()
    give_reboot(stands, "server1")
    with stands.inventory.open("a") as file:
        file.write("[testbed alone]\nclient = server1\nserver = server1\n")
    script = stands.hosts["server1"].home / "reboot"
    for command, down_s, sentence in (
        ("sleep 1000", 1.0, "host server1 did not go down within 1 s of its reboot command 'sleep 1000'"),
        ("sh -c 'echo first; echo not for you >&2; exit 3'", 60.0,
         "host server1: its reboot command 'sh' failed: not for you (exit status 3)"),
        ("/nowhere/reboot now", 60.0,
         "host server1: its reboot command '/nowhere/reboot' cannot be started (No such file or directory)"),
    ):  # fmt: skip
        stands.change("server1", reboot=command)
        assert reboot_hosts(stands, "alone", down_s=down_s)[0] == sentence
    assert stands._left() == ["server1: file ~/reboot"]  # and no command that may be heeded later
    stands.change("server1", reboot=f"sh {script}")
    late = f"host server1 was not back 500 ms after its reboot command 'sh {script}' had ended the agent; seen last: "
    whole = script.read_text()
    sessions = whole.replace("/comm", "/cmdline").replace('"^sshd"', '"^sshd[a-z-]*: "')
    script.write_text(sessions.replace("mount --bind", "true"))
    assert reboot_hosts(stands, "alone", back_s=0.5)[0] == f"{late}it answers, and was not started anew"
    script.write_text(whole.replace("exec", "true"))
    refused = f"ssh: connect to host {stands.hosts['server1'].control4} port 22: Connection refused (exit status 255)"
    assert (
        reboot_hosts(stands, "alone", back_s=0.5)[0]
        == f"{late}no agent could be started by access method ssh: {refused}"
    )


def test_a_session_starts_its_hosts_anew_before_each_epoch_but_the_first(farm, tmp_path):
    stands = farm()
    asked = ("--ipperf-reboot=yes", "--design=smoke", "--connections=1", "--ipver=6", "--transport=native")
    give_reboot(stands, "server1")
    said = stands.session(*asked).communicate(timeout=200)[0]
    assert "ERROR: host client1 has no key reboot in hosts.ini, and --ipperf-reboot=yes needs one for each" in said
    give_reboot(stands, "client1")
    said = stands.session(*asked, f"--ipperf-records={tmp_path}").communicate(timeout=200)[0]
    assert "ipperf: starting client1, server1 anew for epoch 1" in said
    assert "broken off" not in said
    (journal,) = tmp_path.glob("runs/*/main.jsonl")
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    assert next(each for each in events if each["event"] == "session")["reboot"] is True
    (reboot,) = [each for each in events if each["event"] == "reboot"]
    assert (reboot["workload"], reboot["epoch"]) == ("bed1-smtp-c1-1k", 1)
    assert sorted(reboot["seconds"]) == ["client1", "server1"]
    kinds = [each["event"] for each in events if each["event"] in {"epoch", "reboot", "complete"}]
    assert kinds == ["epoch", "reboot", "epoch", "complete"]


def test_the_epochs_of_rebooted_hosts_go_on_after_the_controller_was_killed(farm, tmp_path):
    stands = farm()
    give_reboot(stands, "server1", "client1")
    smallest = ("--design=smoke", "--connections=1", "--ipver=6", "--transport=native")
    asked = ("--ipperf-reboot=yes", f"--ipperf-records={tmp_path}", *smallest)

    def events():
        journal = max(tmp_path.glob("runs/*/main.jsonl"), default=None, key=lambda path: path.stat().st_mtime)
        lines = journal.read_text().splitlines(keepends=True) if journal else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    first = stands.session(*asked)
    end = time.monotonic() + 150
    while not [each for each in events() if each["event"] == "reboot"]:
        assert first.poll() is None, first.communicate()[0]
        assert time.monotonic() < end
        time.sleep(0.1)
    first.kill()
    first.wait()
    kept = [each["began_at"] for each in events() if each["event"] == "run"]
    said = stands.session(*asked, "--ipperf-resume=last").communicate(timeout=250)[0]
    assert "bed1-smtp-c1-1k goes on after the 4 runs of session " in said
    assert "ipperf: starting client1, server1 anew for epoch 1" in said
    found = events()
    assert [each["began_at"] for each in found if each["event"] == "run"][:4] == kept[:4]
    assert [(each["epoch"], each["block"]) for each in found if each["event"] == "run"][4:] == [(1, -1)] * 2 + [
        (1, 0)
    ] * 2
    kinds = [each["event"] for each in found if each["event"] in {"epoch", "reboot", "complete"}]
    assert kinds == ["epoch", "reboot", "epoch", "complete"]
