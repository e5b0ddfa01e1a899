"""Use of a host's keys by the access methods; tests/system/far shows over real sshds that it works."""

from __future__ import annotations

import pwd
import shlex
import subprocess
import sys
from types import SimpleNamespace

import pytest
from execnet.gateway_io import popen_args, ssh_args
from execnet.xspec import XSpec

from pytest_ipperf.lab.access import local, ssh
from pytest_ipperf.lab.access.base import SUDO
from tests.support.needs import needs

SSH, LOCAL = ssh.access_method, local.access_method


def started(way, settings, entry=()):
    """Return the command by which execnet starts Python, up to its own code; for ssh, as the remote shell splits it."""
    spec = XSpec("execmodel=thread")
    for name, value in way.spec(settings, entry).items():
        setattr(spec, name, value)
    argv = ssh_args(spec) if spec.ssh else popen_args(spec)
    there = shlex.split(argv.pop()) if spec.ssh else []
    return [word for word in (*argv, *there) if not word.startswith(("-o", "import sys"))]


@pytest.mark.parametrize(
    ("destination", "words"),
    [
        ("beta", ["beta"]),
        ("admin@beta.example.org", ["admin@beta.example.org"]),
        ("2001:db8::1", ["2001:db8::1"]),
        ("admin@2001:db8::1", ["admin@2001:db8::1"]),
        ("admin@fe80::1%eth0", ["admin@fe80::1%eth0"]),
        ("admin@[2001:db8::1]", ["admin@2001:db8::1"]),
        ("ssh://beta", ["beta"]),
        ("ssh://beta.example.org/", ["beta.example.org"]),
        ("ssh://root@beta:2222", ["-p", "2222", "root@beta"]),
        ("ssh://root@[2001:db8::1]:2222", ["-p", "2222", "root@2001:db8::1"]),
        ("ssh://[2001:db8::1]", ["2001:db8::1"]),
        ("me@corp@gate.example.org", ["me@corp@gate.example.org"]),
    ],
)
def test_destinations_are_told_to_ssh_as_it_takes_them(destination, words):
    settings = {"ssh": destination}
    assert SSH.trouble(settings) == ""
    assert started(SSH, settings) == ["ssh", "-C", *words, "python3", "-I", "-c"]
    assert [word for word in SSH.command(settings, ()) if not word.startswith("-o")][1:-1] == words


@pytest.mark.parametrize(
    "destination",
    [
        *("ssh://", "ssh://beta:port", "ssh://beta:123456", "ssh://beta:22;id", "ssh://2001:db8::1", "ssh://beta/path"),
        *("ssh://-oProxyCommand=id", "ssh://root@-oProxyCommand=id", "root@-oProxyCommand=id", "[-oProxyCommand=id]"),
        *("beta:port", "http://beta"),
    ],
)
def test_what_is_no_destination_is_refused(destination):
    assert SSH.trouble({"ssh": destination}) == f"ssh = {destination!r} is not of a form such as user@host"


@pytest.mark.parametrize("destination", ["beta:22", "root@beta:2222", "192.0.2.1:22", "[2001:db8::1]:22"])
def test_of_a_destination_with_a_port_the_form_that_can_have_one_is_told(destination):
    sentence = f"ssh = {destination!r} has a port, which only a URI can have; write ssh://{destination}"
    assert SSH.trouble({"ssh": destination}) == sentence
    assert SSH.trouble({"ssh": f"ssh://{destination}"}) == ""


def test_the_words_before_a_python_stand_before_it_there():
    assert started(LOCAL, {}, SUDO) == ["sudo", "-n", "--", sys.executable, "-P", "-u", "-c"]
    settings = {"ssh": "beta", "python": "/opt/python3"}
    assert started(SSH, settings, SUDO)[3:] == ["sudo", "-n", "--", "/opt/python3", "-I", "-c"]
    assert shlex.split(SSH.asking(settings, SUDO, "print('a b')")[-1]) == [
        *("sudo", "-n", "--", "/opt/python3", "-I", "-c", "print('a b')")
    ]
    assert LOCAL.command({}, SUDO)[:4] == ["sudo", "-n", "--", sys.executable]


@needs("ssh")
def test_a_machine_is_where_the_configuration_leads(tmp_path):
    (tmp_path / "config").write_text(
        "Host alpha\n HostName Gate.example.org\nHost beta\n HostName gate.example.org\n User me\n"
        "Host gamma\n HostName gate.example.org\n Port 2222\nHost delta\n HostName 10.0.0.2\n ProxyJump beta\n"
        "Host epsilon\n HostName 10.0.0.2\n ProxyCommand nc %h %p\n"
    )
    expected = {
        "alpha": "ssh gate.example.org port 22",
        "beta": "ssh gate.example.org port 22",
        "gamma": "ssh gate.example.org port 2222",
        "ssh://other@beta": "ssh gate.example.org port 22",
        "ssh://beta:2222": "ssh gate.example.org port 2222",
        "delta": "ssh 10.0.0.2 port 22 by beta",
        "epsilon": "ssh 10.0.0.2 port 22 by nc %h %p",
        "10.0.0.2": "ssh 10.0.0.2 port 22",
    }
    config = str(tmp_path / "config")
    assert {name: SSH.machine({"ssh": name, "ssh_config": config}) for name in expected} == expected


@needs("ssh")
@pytest.mark.parametrize("text", [
    "", "Host *\n User me\n ForwardAgent no\n", "# HostName elsewhere\n", "Include more.conf\n",
    "Include none/*.conf\n",
    "Match host alpha\n HostName elsewhere\n", "Host a*\n  hostname=elsewhere\n", "Include redirecting.conf\n",
    "Host alpha\n Port 2222\n", "CanonicalizeHostname yes\nCanonicalDomains example.org\n",
])  # fmt: skip
def test_a_machine_is_the_one_that_ssh_says_whether_it_is_asked_or_not(tmp_path, monkeypatch, text):
    """Asking ssh about ten thousand hosts would take too long; it is not needed if no configuration leads elsewhere."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "more.conf").write_text("Compression yes\n")
    (tmp_path / "redirecting.conf").write_text("Host alpha\n HostName elsewhere\n")
    config = tmp_path / "config"
    config.write_text(text.replace("Include ", f"Include {tmp_path}/"))
    for name in (
        "alpha",
        "ALPHA",
        "me@alpha",
        "ssh://alpha:0443",
        "10.0.0.2",
        "2001:DB8::1",
        "ssh://me@[2001:db8::1]:22",
    ):
        made = SSH.machine({"ssh": name, "ssh_config": str(config)})
        *port, who = ssh._target(name)
        said = subprocess.run(
            ["ssh", "-F", config, "-G", *port, who], capture_output=True, text=True, check=True
        ).stdout
        reported = dict(line.split(" ", 1) for line in said.splitlines())
        assert made == f"ssh {reported['hostname'].lower()} port {reported['port']}"


def test_a_relative_include_is_looked_for_in_the_users_own_folder(tmp_path, monkeypatch):
    """This is what ssh does with `-F`, wherever that file is."""
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: SimpleNamespace(pw_dir=str(tmp_path)))
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/redirecting.conf").write_text("Host alpha\n HostName elsewhere\n")
    config = tmp_path / "config"
    config.write_text("Include redirecting.conf\n")
    assert ssh._redirects(str(config))


@needs("ssh")
def test_ssh_is_asked_once_for_many_hosts_whose_names_lead_nowhere_else(tmp_path, monkeypatch):
    asked, run = [], subprocess.run

    def counting(argv, **settings):
        asked.append(argv)
        return run(argv, **settings)

    monkeypatch.setattr(subprocess, "run", counting)
    (tmp_path / "config").write_text("Host *\n User me\n")
    config = str(tmp_path / "config")
    machines = {SSH.machine({"ssh": f"host{number}", "ssh_config": config}) for number in range(10_000)}
    assert len(machines) == 10_000
    assert len(asked) == 1


def test_where_ssh_does_not_tell_a_machine_is_its_name(tmp_path, monkeypatch):
    (tmp_path / "config").write_text("what is this\n")
    assert SSH.machine({"ssh": "me@beta", "ssh_config": str(tmp_path / "config")}) == "ssh me@beta"
    assert SSH.machine({"ssh": "me@beta", "ssh_config": str(tmp_path / "none")}) == "ssh me@beta"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert SSH.machine({"ssh": "without.ssh"}) == "ssh without.ssh"
