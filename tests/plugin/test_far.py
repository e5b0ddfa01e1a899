"""Two testbeds of hosts behind real sshds, each host a namespace of its own, measured side by side by xdist."""

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from pytest_ipperf.lab.namespaces import namespaces, unusable
from pytest_ipperf.lab.testbed import Host, Testbed
from pytest_ipperf.plugin.outcome import NOTHING_DECIDED

SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="an sshd in a namespace needs root"),
    pytest.mark.skipif(bool(unusable()), reason=f"the lab cannot stand: {unusable()}"),
    pytest.mark.skipif(SSHD is None, reason="no sshd here (Debian: apt-get install openssh-server)"),
]

SSHD_CONFIG = """
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
PermitRootLogin prohibit-password
"""
SSH_CONFIG = """
Host *
    User root
    IdentityFile {folder}/user
    IdentitiesOnly yes
    IdentityAgent none
    HostKeyAlias far
    UserKnownHostsFile {folder}/known
    StrictHostKeyChecking yes
    ControlPath none
"""


def pair(number: int) -> Testbed:
    """Two hosts on a cable of their own."""
    hosts = [
        Host(
            name=f"{role}{number}", way="namespace", ipv4=f"198.18.{number}.{end}", ipv6=f"2001:2:0:{number}::{end}",
            settings={"node": role},
        )
        for end, role in ((1, "client"), (2, "server"))
    ]  # fmt: skip
    return Testbed(name=f"bed{number}", client=hosts[0], server=hosts[1])


@pytest.fixture
def far(tmp_path):
    """An inventory of two such pairs; every host has its own sshd, which ssh starts at the far end of a pipe."""
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name], check=True)
    (tmp_path / "known").write_text(f"far {(tmp_path / 'host.pub').read_text()}")
    (tmp_path / "sshd_config").write_text(SSHD_CONFIG.format(folder=tmp_path))
    config, inventory = SSH_CONFIG.format(folder=tmp_path), ""
    with contextlib.ExitStack() as stack:
        for testbed in (pair(1), pair(2)):
            entries = stack.enter_context(namespaces(testbed))
            inventory += f"[testbed {testbed.name}]\nclient = {testbed.client.name}\nserver = {testbed.server.name}\n"
            for host in testbed.hosts:
                proxy = shlex.join([*entries[host.name], str(SSHD), "-i", "-e", "-f", str(tmp_path / "sshd_config")])
                config = f"Host {host.name}\n    ProxyCommand {proxy} 2>/dev/null\n{config}"
                inventory += (
                    f"[host {host.name}]\nway = ssh\nssh = {host.name}\nssh_config = {tmp_path}/ssh_config\n"
                    f"python = {shutil.which('python3')}\nipv4 = {host.ipv4}\nipv6 = {host.ipv6}\n"
                )
        (tmp_path / "ssh_config").write_text(config)
        (tmp_path / "hosts.ini").write_text(inventory)
        yield tmp_path / "hosts.ini"


def test_two_testbeds_behind_sshds_are_measured_at_the_same_time(project, far):
    """Their servers are the hosts' own: a bare host has no packages for embedded ones."""
    project.pytester.makepyfile("import pytest\n@pytest.mark.http\ndef test_http(measured, margin):\n"
                                "    assert measured.slowdown <= margin\n")  # fmt: skip
    if not shutil.which("apache2", path="/usr/sbin:/usr/bin"):
        pytest.skip("apache2 is not installed (Debian: apt-get install apache2-bin)")
    result = project.run(
        f"--ipperf-hosts={far}",
        "--testbed=bed1,bed2",
        "-n",
        "2",
        "--design=smoke",
        "--connections=1,10,100",
        testbed="",
    )
    assert result.ret == NOTHING_DECIDED, result.outlines
    result.stdout.fnmatch_lines(
        ["*testbed bed1, server apache *", "*testbed bed2, server apache *", "*6 inconclusive*"]
    )
    runs = [line for line in project.kept() if line["event"] == "run"]
    assert len(runs) == 2 * 3 * 8
    assert all(run["contradictions"] == [] and run["failed"] == {} for run in runs)
    peers: dict[str, set[str]] = {run["workload"][:4]: set() for run in runs}
    spans = {bed: [run["at"] for run in runs if run["workload"].startswith(bed)] for bed in peers}
    assert max(map(min, spans.values())) < min(map(max, spans.values())), "one after the other"
    for run in runs:
        peers[run["workload"][:4]] |= set(run["proof"]["peers"])
    assert peers == {"bed1": {"198.18.1.2", "2001:2:0:1::2"}, "bed2": {"198.18.2.2", "2001:2:0:2::2"}}


def bare_pythons():
    """Interpreters of 3.10 and later, oldest first."""
    found: dict[tuple[int, ...], str] = {}
    for path in ("/usr/bin/python3", *map(str, Path.home().glob(".pyenv/versions/3.*/bin/python3"))):
        with contextlib.suppress(OSError, ValueError):
            code = "import sys; print(*sys.version_info[:2])"
            said = subprocess.run([path, "-I", "-c", code], capture_output=True, text=True, check=False).stdout
            found.setdefault(tuple(map(int, said.split())), path)
    return sorted((version, path) for version, path in found.items() if version >= (3, 10))


@pytest.mark.parametrize(("protocol", "package"), [("smtp", "aiosmtplib"), ("http", "aiohttp")])
def test_bare_hosts_behind_sshds_are_measured_by_the_library_client(project, far, tmp_path, protocol, package):
    """Neither of them has a package: both are sent what they need, and it goes with them."""
    pythons = bare_pythons()
    if not pythons:
        pytest.skip("no Python but the one that runs the tests")
    # aiohttp's dependencies, and aiosmtpd's, have left Python 3.10 behind; aiosmtplib has none.
    oldest, newest = next(each for each in pythons if protocol == "smtp" or each[0] > (3, 10)), pythons[-1]
    client, server = (oldest, newest) if protocol == "smtp" else (newest, oldest)
    inventory = far.read_text()
    for role, (_, path) in (("client", client), ("server", server)):
        (tmp_path / role).write_text(f'#!/bin/sh\nexec {path} -S "$@"\n')
        (tmp_path / role).chmod(0o755)
        inventory = re.sub(rf"(\[host {role}1\][^[]*python = ).*", rf"\g<1>{tmp_path}/{role}", inventory)
    far.write_text(inventory)
    project.pytester.makepyfile(f"import pytest\n@pytest.mark.{protocol}\ndef test_it(measured, margin):\n"
                                "    assert measured.slowdown <= margin\n")  # fmt: skip
    result = project.run(
        f"--ipperf-hosts={far}",
        "--testbed=bed1",
        "--client=library",
        "--ipperf-server=embedded",
        "--design=smoke",
        "--connections=1,20",
        testbed="",
    )
    assert result.ret == NOTHING_DECIDED, result.outlines
    runs = [line for line in project.kept() if line["event"] == "run"]
    assert len(runs) >= 2 * 8
    pure = " (pure Python)" if package == "aiohttp" and client[0] != sys.version_info[:2] else ""
    for run in runs:
        assert (run["contradictions"], run["failed"]) == ([], {})
        assert run["proof"]["client"] == f"{package} {version(package)}{pure}"
        assert set(run["proof"]["peers"]) <= {"198.18.1.2", "2001:2:0:1::2"}
    name = {"smtp": "aiosmtpd", "http": "aiohttp"}[protocol]
    result.stdout.fnmatch_lines([f"*server {name} {version(name)}*(embedded)*client library*"])
