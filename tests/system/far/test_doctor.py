"""A doctor goes through a farm: hosts behind sshds that are well, and such as have something done to them."""

from __future__ import annotations

import subprocess

from tests.support.hosts.doctor import asked, findings


def grades(found):
    return {grade for reported in found.values() for grade, _ in reported}


def test_of_hosts_that_are_well_nothing_is_wrong_and_nothing_is_left(farm):
    hosts = farm()
    text, status = asked(hosts)
    assert status == 0, text
    assert "testbed bed1: client client1, server server1" in text
    assert " 0 wrong" in text
    assert "\n  wrong " not in text
    found, _ = findings(hosts)
    assert ("well", "free") in found["client1", "lease"]
    for way in ("client1 -> server1", "server1 -> client1"):
        assert [grade for grade, _ in found[way, "reach"]] == ["well", "well"]
        assert [said for _, said in found[way, "MTU"]] == [
            f"IPv{ipver}: 1500 bytes arrive unfragmented, 1501 are refused" for ipver in (4, 6)
        ]
    client = hosts.hosts["client1"]
    assert found["client1", "control"][0][1].endswith(f"to {client.control4}, apart from the measured addresses")
    assert hosts.left() == []


def test_of_an_unreachable_host_that_is_told_and_the_others_are_examined(farm):
    hosts = farm()
    hosts.change("client1", python="/nowhere/python3")
    found, status = findings(hosts)
    assert status == 1
    ((grade, reported),) = found["client1", "access"]
    assert grade == "wrong"
    assert "/nowhere/python3" in reported
    assert reported.endswith("install Python 3.10 or later there, or name it in key python")
    assert found["server1", "access"][0][0] == "well"
    assert found["server1", "addresses"][0][0] == "well"


def test_of_a_python_that_is_none_or_may_not_be_run_that_is_told(farm):
    hosts = farm()
    hosts.change("client1", python="/etc/hosts", ssh="root@client1")
    hosts.change("server1", python="/bin/ls")
    found, status = findings(hosts)
    assert status == 1
    ((_, reported),) = found["client1", "access"]
    assert reported.endswith("(exit status 126): user root may not run it: correct key python, or its rights there")
    ((_, reported),) = found["server1", "access"]
    assert "import sys" not in reported
    assert ": correct key python, if that is no Python: ssh " in reported
    assert reported.endswith("/bin/ls --version")
    hosts.change("client1", ssh_config="/nowhere/config")
    ((_, reported),) = findings(hosts)[0]["client1", "access"]
    assert "/nowhere/config" in reported
    assert reported.endswith("(exit status 255): correct key ssh_config")


def test_what_is_wrong_between_hosts_is_told_for_each_way(farm):
    hosts = farm()
    server, client = hosts.hosts["server1"], hosts.hosts["client1"]
    server.run("ip", "link", "set", server.device, "mtu", "1400")
    server.run("ip", "-6", "rule", "add", "ipproto", "udp", "blackhole")
    shaped = ["root", "tbf", "rate", "50mbit", "burst", "20k", "limit", "1m"]
    client.run("tc", "qdisc", "add", "dev", client.device, *shaped)
    found, status = findings(hosts)
    assert status == 1
    remedy = "open 20000-29999 of server1 to client1, for TCP and UDP, in firewalls on the path"
    assert found["client1 -> server1", "reach"][1] == (
        "wrong",
        f"IPv6: no answer by UDP from a port of 20000-29999: {remedy}",
    )
    assert found["server1 -> client1", "reach"][0][0] == "well"
    (lost,) = [each for each in found["client1 -> server1", "MTU"] if each[1].startswith("IPv4")]
    assert lost[0] == "wrong"
    assert "1500 bytes" in lost[1]
    assert ("doubtful", "the hosts' devices have different MTUs: client1 1500, server1 1400: give them one") in (
        found["", "MTU"]
    )
    ((grade, reported),) = found["client1", "devices"]
    assert grade == "doubtful"
    assert reported.startswith(f"{client.device} is shaped by tbf at 50 Mbit/s: tc qdisc del dev {client.device} root")


def test_addresses_and_keys_that_are_not_true_are_told(farm):
    hosts = farm()
    hosts.change("server1", ipv6="2001:2:0:10::77", ports="40000-40100", reboot="/nowhere/reboot now", cpus="4095")
    found, status = findings(hosts)
    assert status == 1
    assert ("wrong", "ipv6 = 2001:2:0:10::77 is not on this host: correct the key, or add the address") in (
        found["server1", "addresses"]
    )
    assert found["server1", "ports"][0][0] == "doubtful"
    assert "40000-40100 overlaps the ephemeral ports" in found["server1", "ports"][0][1]
    assert found["server1", "reboot"] == [("wrong", "key reboot: there is no program /nowhere/reboot: correct the key")]
    assert any("key cpus names 4095" in reported for _, reported in found["server1", "processors"])
    ways = found["client1 -> server1", "reach"]
    assert any("2001:2:0:10::77 is not an address of host server1" in reported for _, reported in ways)


# As an agent leaves it whose folder somebody has busy.
LEAVE = """
mkdir -p {tmp}/ipperf-busy/mounted && touch {tmp}/ipperf-busy/.lock && touch -d -1hour {tmp}/ipperf-busy/.lock
mount -t tmpfs none {tmp}/ipperf-busy/mounted
mkdir -m 711 /run/pytest-ipperf; cat /proc/sys/kernel/random/boot_id > /run/pytest-ipperf/left
echo '{{"said": "a folder is left", "folder": "{tmp}/ipperf-busy"}}' >> /run/pytest-ipperf/left
cat /proc/sys/kernel/random/boot_id > /run/pytest-ipperf/unrestored
echo '{{"said": "route x is missing"}}' >> /run/pytest-ipperf/unrestored
"""


def test_a_mark_is_told_cleared_of_what_is_gone_and_of_the_rest_when_asked(farm):
    """First while a folder is busy, then when it is not, and at last by the word of a person."""
    hosts = farm()
    server = hosts.hosts["server1"]
    server.run("sh", "-ec", LEAVE.format(tmp=server.tmp))
    path = server.run("sh", "-c", "ls /run/pytest-ipperf").split()
    assert path == ["left", "unrestored"]
    clear = "put it in order, then clear the mark: pytest-ipperf doctor --testbed=bed1 --clear"
    for arguments in ((), ("--clear",)):
        found, status = findings(hosts, "--testbed=bed1", *arguments)
        assert status == 1
        marked = "marked by user 0, so nothing is measured there"
        assert ("wrong", f"a folder is left (still so; {marked}): {clear}") in found["server1", "left"]
    server.run("umount", f"{server.tmp}/ipperf-busy/mounted")
    found, status = findings(hosts, "--testbed=bed1")
    reported = [said for _, said in found["server1", "left"]]
    assert status == 0, reported
    assert any(said == "cleared the mark of: a folder is left" for said in reported)
    found, status = findings(hosts)
    assert found["server1", "left"] == [("well", "nothing")]


def test_a_host_that_is_measured_on_is_left_in_peace(farm):
    hosts = farm()
    server = hosts.hosts["server1"]
    code = (
        "import socket, time; s = socket.socket(socket.AF_UNIX); s.bind('\\0pytest-ipperf.lease'); s.listen(64); "
        "print(flush=True); time.sleep(1000)"
    )
    argv = [*server.entry, server.python, "-c", code]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout
            holder.stdout.readline()
            found, status = findings(hosts)
        finally:
            holder.kill()
    assert status == 0
    ((grade, reported),) = found["server1", "lease"]
    assert grade == "doubtful"
    assert reported.startswith("held by process ")
    ((grade, reported),) = found["", "reach"]
    assert grade == "doubtful"
    assert reported.startswith(
        "the paths were not probed, as somebody is measuring on server1: run the doctor again later"
    )
