"""Reports about a purged host, and about this machine."""

from __future__ import annotations

import dataclasses
import os
import time
from typing import ClassVar

import pytest

from pytest_ipperf.agent.facts.leftovers import LeftoverFacts
from pytest_ipperf.agent.packages.cache import Cache
from pytest_ipperf.agent.rpc.messages import CacheState, Cleaned, CollectedFacts
from pytest_ipperf.cli import main
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.lab.deploy import caches
from pytest_ipperf.lab.deploy.caches import Purged, caching_hosts, purge, purge_here
from pytest_ipperf.lab.deploy.wheels import CACHE_SECTION
from pytest_ipperf.lab.inventory.builtin import BUILTIN
from pytest_ipperf.lab.inventory.model import Host

NOTE = "the cache /home/x/.cache/pytest-ipperf is not used: it belongs to another user; remove it"
HOSTS = [Host(name=name, way="ssh", settings={"ssh": name}) for name in ("a", "b", "c", "d", "e")]


@dataclasses.dataclass
class Answering:
    """A client of the agent on a host of that name, which caches nothing meanwhile."""

    host: Host
    keeps: bool
    holders: ClassVar[dict[str, str]] = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def collect_facts(self, names, _):
        assert names == ["leftovers"]
        holder = self.holders.get(self.host.name, "")
        return CollectedFacts(found={"leftovers": LeftoverFacts(holder=holder, marks=[], folders=[], undo_logs=[])})

    def clean(self):
        assert not self.keeps
        if self.host.name == "e":
            raise LabError("host e: is not there")
        note, entries, size, folders = {
            "b": ("", 2, 1_240_000, 0), "c": ("", 1, 1, 1), "d": (NOTE, 0, 0, 0),
        }.get(self.host.name, ("", 0, 0, 0))  # fmt: skip
        return Cleaned(cache=CacheState(folder="", note=note, entries=entries, bytes=size), folders=folders)


def test_each_host_is_told_of_and_none_keeps_others_from_it(monkeypatch):
    monkeypatch.setattr(caches, "AgentClient", Answering)
    assert purge(HOSTS) == [
        Purged("a"),
        Purged("b", "2 entries of the cache (1.2 MB)"),
        Purged("c", "1 entry of the cache (0.0 MB) and 1 private folder"),
        Purged("d", trouble=f"host d: {NOTE}"),
        Purged("e", trouble="host e: is not there"),
    ]
    assert purge([]) == []


def test_hosts_that_are_this_machine_keep_nothing():
    assert caching_hosts(BUILTIN.values()) == []
    far = dataclasses.replace(BUILTIN["loopback"], client=HOSTS[0], server=HOSTS[0])
    assert caching_hosts([far, far]) == [HOSTS[0]]


def test_this_machine_is_cleaned_of_both(tmp_path, monkeypatch, capsys):
    tmp_path, folders = tmp_path / "cache", tmp_path / "tmp"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(folders))
    for name in ("ipperf-killed", "ipperf-young"):
        (folders / name).mkdir(parents=True)
        (folders / name / ".lock").touch()
    os.utime(folders / "ipperf-killed" / ".lock", (0, 0))
    soon = time.time() + 3600  # young for as long as the test takes
    os.utime(folders / "ipperf-young" / ".lock", (soon, soon))
    Cache(CACHE_SECTION).put(b"1" * 1_000_000)
    Cache(CACHE_SECTION).put(b"2" * 1_000_000)
    Cache().put(b"3")
    assert main(["clean", "--here"]) == 0
    assert capsys.readouterr().out == (
        "this machine: removed 2 wheels (2.0 MB), 1 entry of agents (0.0 MB) and 1 private folder\n"
    )
    assert sorted(path.name for path in folders.iterdir()) == ["ipperf-young"]
    assert purge_here() == Purged("this machine")
    assert list(tmp_path.iterdir()) == []
    Cache().put(b"3")
    (tmp_path / "pytest-ipperf").chmod(0o777)
    assert main(["clean", "--here"]) == 1
    why = f"the cache {tmp_path}/pytest-ipperf is not used: others may write to it; remove it"
    assert capsys.readouterr().err == f"pytest-ipperf: {why}\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "there is no hosts.ini here; name an inventory with --ipperf-hosts, or --here this machine"),
        (
            ["--testbed", "nowhere", "--ipperf-hosts", "bed.ini"],
            "--testbed: testbed 'nowhere' does not exist; there are lab, pair, ",
        ),
    ],
)
def test_what_cannot_be_meant_is_told(tmp_path, monkeypatch, capsys, words, sentence):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bed.ini").write_text("")
    assert main(["clean", *words]) == 4
    assert capsys.readouterr().err.startswith(f"pytest-ipperf: {sentence}")


INVENTORY = "".join(
    f"[testbed t{name}]\nclient = {name}\nserver = {name}\n[host {name}]\nway = ssh\nssh = {name}\nipv4 = 192.0.2.1\n"
    for name in "abc"
)


@pytest.mark.parametrize(
    ("words", "hosts"),
    [
        ([], "abc"),
        (["--testbed", "ta"], "a"),
        (["--testbed=ta,tc"], "ac"),
        (["--testbed", "tc, ta", "--testbed=tb,tc"], "cab"),
    ],
)
def test_testbeds_are_named_as_to_the_doctor(tmp_path, monkeypatch, capsys, words, hosts):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hosts.ini").write_text(INVENTORY)
    monkeypatch.setattr(caches, "AgentClient", Answering)
    main(["clean", *words])
    reported = capsys.readouterr()
    assert [line.partition(":")[0] for line in reported.out.splitlines()] == list(hosts)


def test_who_measures_on_a_host_that_is_cleaned_is_told(tmp_path, monkeypatch, capsys):
    (tmp_path / "bed.ini").write_text(INVENTORY)
    holder = "process 37 of user 0 since 06:43:37 (me@desk: pytest -m smtp)"
    monkeypatch.setattr(caches, "AgentClient", Answering)
    monkeypatch.setattr(Answering, "holders", {"c": holder})
    assert main(["clean", "--testbed=ta,tc", "--ipperf-hosts", str(tmp_path / "bed.ini")]) == 0
    assert capsys.readouterr().out == (
        "a: nothing to remove\n"
        "c: removed 1 entry of the cache (0.0 MB) and 1 private folder\n"
        f"  it is held by {holder}, which goes on measuring and sends again what it needs\n"
    )


def test_a_testbed_of_this_machine_is_told_to_be_one(tmp_path, capsys):
    (tmp_path / "bed.ini").write_text("")
    assert main(["clean", "--testbed", "lab", "--ipperf-hosts", str(tmp_path / "bed.ini")]) == 0
    assert (
        capsys.readouterr().out
        == "these hosts have no caches of their own: they are all this machine, which --here cleans\n"
    )
