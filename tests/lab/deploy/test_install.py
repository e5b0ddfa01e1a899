"""Packages of this machine on Pythons that have none: packed, sent, imported, measured with and serving."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import pytest

from pytest_ipperf.agent.packages.installed import interpreter
from pytest_ipperf.core.design.cell import Arm, Workload
from pytest_ipperf.core.portable.errors import LabError, UsageError
from pytest_ipperf.lab.access import local
from pytest_ipperf.lab.agents.client import AgentClient
from pytest_ipperf.lab.deploy import resolver, wheels
from pytest_ipperf.lab.deploy.install import check_library, install_client, install_packages, package_archive
from pytest_ipperf.lab.deploy.interpreters import Python
from pytest_ipperf.lab.epoch.live_testbed import live_testbed
from pytest_ipperf.lab.inventory.builtin import BUILTIN
from pytest_ipperf.protocols import application
from pytest_ipperf.protocols.base import Application
from tests.support.hosts.machines import TOLD, bare_pythons

ROOT = Path(__file__).parents[3]
OURS = Python.from_report(interpreter())
HOST = BUILTIN["loopback"].client
ARMS = [Arm(4, "native"), Arm(6, "native")]
IMPORTED = {"aiohttp": ("aiohttp.web",), "aiosmtplib": ("aiosmtplib",), "aiosmtpd": ("aiosmtpd.smtp",)}
# Imports from a folder alone, and names the compiled modules that it then has from there.
COMPILED = """
import importlib, sys
folder, *names = sys.argv[1:]
sys.path.insert(0, folder)
for name in names:
    importlib.import_module(name)
for module in list(sys.modules.values()):
    where = getattr(module, "__file__", None) or ""
    if where.startswith(folder) and where.endswith(".so"):
        print(where)
"""


def foreign(**markers):
    """Return our Python with another ABI."""
    return dataclasses.replace(
        OURS, abi="cpython-399-none", magic="", markers=tuple(sorted({**dict(OURS.markers), **markers}.items()))
    )


PYTHONS = bare_pythons()
# Those of our version, on which our compiled modules run; another build of it first.
LIKE_OURS = sorted(
    (path == os.path.realpath(sys._base_executable), path)  # type: ignore[attr-defined]
    for release, path in PYTHONS
    if release[:2] == sys.version_info[:2]
)
EACH_KIND = {*(path for _, path in (*PYTHONS[:1], *PYTHONS[-1:], *LIKE_OURS[:1]))}
"""The oldest, the newest, and one like ours; what is between them is sent the same way."""
on_bare_pythons = pytest.mark.parametrize(
    "python", [path for _, path in PYTHONS], ids=lambda path: path.replace("/", "_")
)
on_each_kind_of_python = pytest.mark.parametrize(
    "python",
    [
        pytest.param(path, id=path.replace("/", "_"), marks=() if path in EACH_KIND else pytest.mark.evidence)
        for _, path in PYTHONS
    ],
)


def names_in(sent):
    return zipfile.ZipFile(io.BytesIO(sent.data)).namelist()


def installed(folder, name, *metadata):
    """Make a distribution of one module, as pip leaves it."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / f"{name}.py").write_text("")
    (info / "METADATA").write_text("\n".join((f"Name: {name}", "Version: 1.0", *metadata)))
    (info / "RECORD").write_text(f"{name}.py,,\n{name}-1.0.dist-info/METADATA,,\n../../../bin/{name}.py,,\n")


@pytest.fixture(autouse=True)
def _own_tmpdir(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))


@pytest.fixture(autouse=True)
def _without_index(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setattr(wheels, "_pip", lambda: ())
    monkeypatch.setattr(resolver, "WHEELS", wheels.Wheels())
    package_archive.cache_clear()


# --- packing ----------------------------------------------------------------------------------------------------------


def test_a_parcel_for_our_own_python_is_what_is_installed_here():
    names = names_in(sent := package_archive(("aiohttp", "aiosmtpd", "aiosmtplib"), OURS))
    assert {"aiohttp/web.py", "multidict/__init__.py", "aiosmtpd/smtp.py", "aiosmtplib/smtp.py"} <= set(names)
    assert f"aiosmtplib-{version('aiosmtplib')}.dist-info/METADATA" in names
    assert [name for name in names if "/licenses/" in name]
    assert not [name for name in names if name.startswith(("/", "..")) or "/tests/" in name]
    assert "aiohttp/__pycache__/web.cpython-" in "".join(names), "or each epoch would begin with compiling it"
    assert not {name.split("/")[0] for name in names} & {"pytest", "scipy", "numpy", "execnet", "pytest_ipperf"}
    assert sent.stripped == ()


def test_the_same_packages_make_the_same_parcel():
    first = package_archive(("aiosmtplib",), OURS)
    package_archive.cache_clear()
    assert package_archive(("aiosmtplib",), OURS) == first
    others = {package_archive(("aiosmtplib",), foreign(platform_release=each)).digest for each in ("6.1", "6.2")}
    assert len(others) == 1, "it has no compiled modules to lose"


def test_compiled_modules_go_where_they_run():
    older = dataclasses.replace(OURS, libc=(OURS.libc[0], "2.1"))
    newer = dataclasses.replace(OURS, libc=(OURS.libc[0], "2.999"))
    other = dataclasses.replace(OURS, libc=("musl", OURS.libc[1]))
    unknown = dataclasses.replace(OURS, abi="")
    assert OURS.runs_what_is_compiled_for(OURS)
    assert newer.runs_what_is_compiled_for(OURS)
    assert not any(each.runs_what_is_compiled_for(OURS) for each in (older, other, unknown, foreign()))
    assert not unknown.runs_what_is_compiled_for(unknown)


@pytest.mark.parametrize("package", IMPORTED)
def test_without_compiled_modules_pure_python_does_the_same(package, tmp_path):
    sent = package_archive((package,), foreign())
    assert not [name for name in names_in(sent) if name.endswith(".so")]
    zipfile.ZipFile(io.BytesIO(sent.data)).extractall(tmp_path)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-W", "error", "-c", COMPILED, tmp_path, *IMPORTED[package]],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_what_a_host_needs_is_asked_for_its_own_python(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    installed(tmp_path, "ipperf_both")
    installed(tmp_path, "ipperf_top", 'Requires-Dist: ipperf_old; python_version < "3.11"',
              "Requires-Dist: ipperf_both", 'Requires-Dist: ipperf_extra; extra == "more"',
              "Requires-Dist: ipperf-top")  # fmt: skip
    new = foreign(python_version="3.12", python_full_version="3.12.1")
    old = foreign(python_version="3.10", python_full_version="3.10.9")
    assert names_in(package_archive(("ipperf-top",), new)) == [
        "ipperf_both.py", "ipperf_both-1.0.dist-info/METADATA", "ipperf_top.py", "ipperf_top-1.0.dist-info/METADATA",
    ]  # fmt: skip
    with pytest.raises(LabError) as caught:
        package_archive(("ipperf-top",), old)
    assert str(caught.value) == (
        "its Python 3.10.9 needs ipperf-old, which is not installed here to be sent; "
        "install ipperf-top on the host, or ipperf-old here"
    )
    installed(tmp_path, "ipperf_old", "Requires-Python: >=3.7,<3.11")
    assert "ipperf_old.py" in names_in(package_archive(("ipperf-top",), old))
    with pytest.raises(LabError) as caught:
        package_archive(("ipperf-old",), new)
    assert str(caught.value) == (
        "its Python 3.12.1 does not run ipperf-old 1.0, which is installed here and wants >=3.7,<3.11; "
        "install ipperf-old on the host, or an older ipperf-old here"
    )


def test_a_package_without_a_list_of_its_files_cannot_be_sent(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    installed(tmp_path, "ipperf_listless")
    (tmp_path / "ipperf_listless-1.0.dist-info" / "RECORD").unlink()
    with pytest.raises(
        LabError, match=r"ipperf_listless was installed here without a list of its files; install it with"
    ):
        package_archive(("ipperf-listless",), OURS)


def test_the_library_client_of_a_protocol_needs_its_packages_here():
    check_library(application("http"))
    smtp = application("smtp")
    for packages, what in (
        (("aiosmtplib", "ipperf-nowhere"), "ipperf-nowhere for smtp, and none"),
        (("aiosmtplib>=99",), f"aiosmtplib>=99 for smtp, and {version('aiosmtplib')}"),
    ):
        with pytest.raises(UsageError) as caught:
            check_library(dataclasses.replace(smtp, packages=packages))
        way_out = 'pip install "pytest-ipperf[library]"'
        assert str(caught.value) == f"--client=library needs {what} is installed here; {way_out}"
    check_library(application("dns"))  # whose library is Python's own


def test_a_protocol_without_a_library_client_is_told():
    class Bare(type(application("smtp"))):  # type: ignore[misc]
        library = Application.library

    with pytest.raises(UsageError, match=r"^smtp has no library client; leave out --client=library$"):
        check_library(Bare())


# --- sending ----------------------------------------------------------------------------------------------------------


class Counted:
    """A client whose calls are counted by name; at first its host claims to have what is `pretended`."""

    def __init__(self, agent, pretended=None):
        self._link = agent
        self._pretended = pretended
        self.host, self.keeps = agent.host, agent.keeps
        self.calls: list[str] = []

    def within(self, patience_s):
        self._link = self._link.within(patience_s)
        return self

    def hello(self):
        self.calls.append("hello")
        return self._link.hello()

    def packages(self, names):
        self.calls.append("packages")
        reported = self._link.packages(names)
        if self._pretended:
            reported, self._pretended = dataclasses.replace(reported, versions=self._pretended), None
        return reported

    def unpack(self, *parcel):
        self.calls.append("unpack")
        self._link.unpack(*parcel)


@contextlib.contextmanager
def linked(monkeypatch, python):
    """Make a host whose Python is this one, without any packages."""
    monkeypatch.setattr(local, "PYTHON", (python, "-I", "-S"))
    with AgentClient(HOST) as agent:
        yield cast("Any", Counted(agent))


def test_a_host_that_has_a_package_uses_its_own():
    with AgentClient(HOST) as agent:
        counted: Any = Counted(agent)
        assert install_packages(counted, ["aiosmtplib"]) == f"aiosmtplib {version('aiosmtplib')}"
        assert install_packages(counted, []) == ""
    assert counted.calls == ["packages"]


def test_a_host_whose_own_is_too_old_is_sent_ours():
    with AgentClient(HOST) as agent:
        counted: Any = Counted(agent, pretended={"aiosmtplib": "1.1.6"})
        assert install_packages(counted, ["aiosmtplib>=2"]) == f"aiosmtplib {version('aiosmtplib')}"
    assert counted.calls == ["packages", "unpack", "packages"]


@on_bare_pythons
def test_a_bare_host_is_sent_what_it_lacks_and_once(monkeypatch, tmp_path, python):
    with linked(monkeypatch, python) as agent:
        reported = install_packages(agent, ["aiosmtplib"])
        assert reported == f"aiosmtplib {version('aiosmtplib')}"
        assert agent.calls == ["packages", "unpack", "packages"]
        assert install_client(agent, application("smtp")) == reported
        assert agent.calls[3:] == ["packages"]
        (private,) = tmp_path.iterdir()
        assert [path for path in private.iterdir() if path.name.startswith("packages-")]
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_sent_is_told_with_the_host(monkeypatch):
    with linked(monkeypatch, sys.executable) as agent, pytest.raises(LabError) as caught:
        install_packages(agent, ["ipperf-nowhere"])
    assert str(caught.value).startswith("host client: its Python 3.")
    assert str(caught.value).endswith(
        " needs ipperf-nowhere, which is not installed here to be sent; "
        "install ipperf-nowhere on the host, or ipperf-nowhere here"
    )


# --- measuring with it ------------------------------------------------------------------------------------------------


def why_not(python, package):
    """Return why that Python cannot run what is installed here; empty if it can."""
    done = subprocess.run([python, "-I", "-S", "-c", TOLD, ROOT], capture_output=True, text=True, check=True)
    try:
        package_archive((package,), Python.from_report(json.loads(done.stdout)))
    except LabError as error:
        return str(error)
    return ""


@on_each_kind_of_python
@pytest.mark.parametrize(("protocol", "server"), [("http", "aiohttp"), ("smtp", "aiosmtpd")])
def test_bare_hosts_serve_and_measure_by_what_they_are_sent(monkeypatch, processes, python, protocol, server):
    """Client and server use sent packages; results say if a package falls back to pure Python."""
    monkeypatch.setattr(local, "PYTHON", (python, "-I", "-S"))
    work = Workload(testbed="loopback", protocol=protocol, client="library", connections=20, payload_bytes=1000)
    with live_testbed(BUILTIN["loopback"], f"test {os.getpid()}", 10.0, lambda _: None) as live:
        for agent in (live._client, live._server):
            assert agent._process
            processes.below(agent._process.pid)
        if why := why_not(python, server):
            with pytest.raises(LabError) as caught:
                live.serve(work, "embedded")
            assert str(caught.value) == f"host server: no server for {protocol}: {why}"
            return
        service = live.serve(work, "embedded")
        assert str(service).startswith(f"{server} {version(server)}")
        package = application(protocol).packages[0].partition(">")[0]
        for arm in ARMS:
            result = live.run(arm, service, work, bursts=2, deadline_s=10.0)
            assert (result.data.attempted, result.data.failed, result.violations) == (40, {}, ())
            assert result.proof["client"].startswith(f"{package} {version(package)}")
            assert result.proof["families"] == [f"AF_INET{arm.ipver if arm.ipver == 6 else ''}"]
