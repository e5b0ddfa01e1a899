"""Wheels for the Python of a host: which one is taken, from an index of this test's own and once from a real one."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import zipfile
from ast import literal_eval
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.tags import sys_tags

from pytest_ipperf.agent.packages.cache import Cache
from pytest_ipperf.agent.packages.installed import interpreter
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.lab.deploy import resolver, wheels
from pytest_ipperf.lab.deploy.install import package_archive
from pytest_ipperf.lab.deploy.interpreters import Python
from pytest_ipperf.lab.deploy.wheels import CACHE_SECTION, Wheel, Wheels
from tests.support.hosts.machines import TOLD, bare_pythons
from tests.support.servers.tcp import refusing_port
from tests.support.sessions.forked_python import run_python

OURS = Python.from_report(interpreter())
ROOT = Path(__file__).parents[3]
# Imports from a folder alone, with compiled modules that it then names.
IMPORTED = """
import importlib, sys
sys.path.insert(1, sys.argv[1])
for name in sys.argv[2:]:
    importlib.import_module(name)
print(*(name for name, each in sys.modules.items() if (getattr(each, "__file__", None) or "").endswith(".so")
        and each.__file__.startswith(sys.argv[1])))
"""


def host(version="3.12.4", machine="x86_64", libc=("glibc", "2.31"), kind="cpython"):
    """Return a Python that is not on this machine."""
    short = ".".join(version.split(".")[:2])
    reported = {
        "implementation_version": version, "python_full_version": version, "python_version": short,
        "platform_machine": machine, "implementation_name": kind,
    }  # fmt: skip
    abi = f"{kind}-{short.replace('.', '')}-{machine}-linux-gnu"
    return Python(tuple(sorted({**dict(OURS.markers), **reported}.items())), abi, libc, "00")


def wheel(folder, name, version="1.0", tag="py3-none-any", *, requires=(), python="", compiled=False):
    """Make a wheel as an index has it."""
    info = f"{name}-{version}.dist-info"
    head = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {each}" for each in requires)]
    head += [f"Requires-Python: {python}"] if python else []
    files = {
        f"{name}.py": f"TAG = {tag!r}\n",
        f"{name}-{version}.data/purelib/{name}_more.py": "",
        f"{name}-{version}.data/scripts/{name}": "",
        f"{info}/METADATA": "\n".join(["Metadata-Version: 2.1", *head, "", ""]),
        f"{info}/WHEEL": "\n".join(["Wheel-Version: 1.0", "Root-Is-Purelib: true", f"Tag: {tag}", ""]),
        f"{info}/RECORD": "",
    }
    if compiled:
        files[f"{name}_c.so"] = tag
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / f"{name}-{version}-{tag}.whl", "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)


def installed(folder, name, *metadata, compiled=False):
    """Make a distribution of version 1.0, as pip leaves it."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    modules = [f"{name}.py", *([f"{name}_c.so"] if compiled else [])]
    for each in modules:
        (folder / each).write_text("")
    (info / "METADATA").write_text("\n".join((f"Name: {name}", "Version: 1.0", *metadata)))
    (info / "RECORD").write_text("".join(f"{each},,\n" for each in (*modules, f"{name}-1.0.dist-info/METADATA")))


@pytest.fixture
def index(index_of_new_pips, monkeypatch):
    """Make the same folders, with each pip a fork of a process that has imported it, which takes most of its time."""
    start = subprocess.run

    def run(argv, **settings):
        if (*argv[:4],) != (sys.executable, "-P", "-m", "pip"):
            return start(argv, **settings)
        return run_python(argv[2:], timeout=settings["timeout"])

    monkeypatch.setattr(subprocess, "run", run)
    return index_of_new_pips


@pytest.fixture
def index_of_new_pips(tmp_path, monkeypatch):
    """Make a folder of wheels, the only index, and another one for installed distributions."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    (tmp_path / "index").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.syspath_prepend(tmp_path / "here")
    afresh(monkeypatch)
    if not wheels._pip():
        pytest.skip("no pip here")
    return tmp_path / "index"


def afresh(monkeypatch):
    """Forget the wheels and archives of this process, as if another one started."""
    monkeypatch.setattr(resolver, "WHEELS", Wheels())
    package_archive.cache_clear()


def found(requirement, python):
    got = Wheels().find(Requirement(requirement), python)
    return got and (got.version, sorted(map(str, got.tags)))


def contents(sent):
    with zipfile.ZipFile(io.BytesIO(sent.data)) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


# --- what runs there --------------------------------------------------------------------------------------------------


def test_tags_of_our_own_python_are_those_that_it_has():
    ours = set(OURS.tags())
    assert ours
    real = {tag for tag in sys_tags() if not tag.platform.startswith("linux_")}
    assert real == {tag for tag in ours if not tag.platform.startswith("linux_")}


@pytest.mark.parametrize(
    ("python", "first", "last"),
    [
        (host(), "manylinux_2_31_x86_64", "manylinux1_x86_64"),
        (host(machine="aarch64"), "manylinux_2_31_aarch64", "manylinux2014_aarch64"),
        (host(libc=("glibc", "2.17")), "manylinux_2_17_x86_64", "manylinux1_x86_64"),
    ],
)
def test_platforms_reach_from_its_c_library_to_the_oldest(python, first, last):
    assert (python.platforms[0], python.platforms[-1]) == (first, last)


def test_where_the_c_library_is_not_known_only_pure_wheels_run():
    for python in (
        host(libc=("", "")),
        host(libc=("glibc", "3.0")),
        dataclasses.replace(host(), abi="cpython-312-i386-linux-gnu"),
    ):
        assert python.platforms == []
        assert {(tag.abi, tag.platform) for tag in python.tags()} == {("none", "any")}
    assert host(kind="pypy").abi_tag == ""
    assert dataclasses.replace(host(), abi="cpython-313t-x86_64-linux-gnu").abi_tag == "cp313t"


# --- which is taken ---------------------------------------------------------------------------------------------------


def test_the_wheel_is_that_of_the_hosts_python_platform_and_c_library(index):
    for tag in ("cp311-cp311-manylinux_2_17_x86_64", "cp312-cp312-manylinux_2_17_x86_64",
                "cp312-cp312-manylinux_2_17_aarch64", "cp312-cp312-manylinux_2_34_x86_64",
                "cp312-cp312-musllinux_1_2_x86_64", "cp313-cp313-manylinux2014_x86_64",
                "cp313-cp313t-manylinux2014_x86_64"):  # fmt: skip
        wheel(index, "ipperf_top", tag=tag, compiled=True)
    assert found("ipperf-top==1.0", host()) == ("1.0", ["cp312-cp312-manylinux_2_17_x86_64"])
    assert found("ipperf-top==1.0", host(machine="aarch64")) == ("1.0", ["cp312-cp312-manylinux_2_17_aarch64"])
    assert found("ipperf-top==1.0", host("3.13.1")) == ("1.0", ["cp313-cp313-manylinux2014_x86_64"])
    assert found("ipperf-top==1.0", host("3.14.0")) is None
    assert found("ipperf-top==1.0", host(libc=("", ""))) is None
    assert found("ipperf-top==2.0", host()) is None


def test_a_stable_interface_and_a_version_that_its_python_runs(index):
    wheel(index, "ipperf_top", "1.0", "cp310-abi3-manylinux_2_17_x86_64", python=">=3.10", compiled=True)
    wheel(index, "ipperf_top", "2.0", "cp310-abi3-manylinux_2_17_x86_64", python=">=3.13", compiled=True)
    wheel(index, "ipperf_top", "3.0rc1", "cp310-abi3-manylinux_2_17_x86_64", compiled=True)
    assert found("ipperf-top<2", host("3.13.1"))[0] == "1.0"
    assert found("ipperf-top", host())[0] == "1.0"
    Cache(CACHE_SECTION).clear()
    assert found("ipperf-top", host("3.13.1"))[0] == "2.0"
    assert found("ipperf-top", host())[0] == "1.0"


def test_what_is_kept_is_not_asked_for_again(index, monkeypatch):
    wheel(index, "ipperf_top")
    assert found("ipperf-top", host())
    assert len(Cache(CACHE_SECTION).entries()) == 1
    shutil.rmtree(index)
    assert found("ipperf-top", host()) == ("1.0", ["py3-none-any"])
    assert found("ipperf-top>=1", host("3.10.2"))
    assert found("ipperf-top>=2", host()) is None
    (kept,) = Path(Cache(CACHE_SECTION).folder).iterdir()
    kept.write_bytes(kept.read_bytes()[:-1])
    assert found("ipperf-top", host()) is None
    assert not kept.exists(), "it was damaged"


def test_nothing_is_asked_twice_in_vain_nor_for_long(index, monkeypatch):
    asked = []

    def run(argv, **_):
        asked.append(argv[-1])
        raise subprocess.TimeoutExpired(argv, 1)

    monkeypatch.setattr(subprocess, "run", run)
    every = Wheels()
    for name in ("ipperf-a", "ipperf-a", "ipperf-b"):
        assert every.find(Requirement(name), host()) is None
    every.prepare(dict.fromkeys(map(Requirement, ("ipperf-a", "ipperf-b")), False), host())
    assert asked == ["ipperf-a", "ipperf-b"]
    assert every.why(Requirement("ipperf-b"), host()) == "pip gave no answer in 60 s"
    monkeypatch.setattr(wheels, "_VAIN_S", -1.0)
    assert every.find(Requirement("ipperf-c"), host()) is None
    assert asked == ["ipperf-a", "ipperf-b"]
    assert every.why(Requirement("ipperf-c"), host()) == "", "which was not asked for"


def test_without_an_index_within_reach_two_are_enough_to_know(index, monkeypatch):
    shutil.rmtree(index)
    asked, run = [], subprocess.run

    def counted(argv, **more):
        asked.append(argv[-1])
        return run(argv, **more)

    monkeypatch.setattr(subprocess, "run", counted)
    every, wanted = Wheels(), [Requirement(f"ipperf-{letter}==1.0") for letter in "abcdef"]
    every.prepare(dict.fromkeys(wanted, False), host())
    assert [every.find(each, host()) for each in wanted] == [None] * 6
    assert asked == ["ipperf-f==1.0", "ipperf-a==1.0", "ipperf-b==1.0"]


def test_several_are_fetched_at_once_and_each_alone_where_one_is_missing(index, monkeypatch):
    fetched, run = [], subprocess.run

    def counted(argv, **more):
        fetched.append(argv)
        return run(argv, **more)

    monkeypatch.setattr(subprocess, "run", counted)
    wheel(index, "ipperf_a")
    wheel(index, "ipperf_b")
    every, wanted = Wheels(), [Requirement(f"ipperf-{letter}") for letter in "abc"]
    every.prepare(dict.fromkeys(wanted[:2], False), host())
    assert [bool(every.find(each, host())) for each in wanted[:2]] == [True, True]
    assert len(fetched) == 1
    Cache(CACHE_SECTION).clear()
    every = Wheels()
    every.prepare(dict.fromkeys(wanted, False), host())
    assert [bool(every.find(each, host())) for each in wanted] == [True, True, False]


def test_of_the_same_version_the_wheel_that_fits_closest_is_taken(index):
    tags = ["py3-none-any", "cp312-cp312-manylinux_2_17_x86_64", "cp312-cp312-manylinux_2_28_x86_64"]
    versions = [f"1.{minor}" for minor in range(12)]
    for version in versions:
        for tag in tags:
            wheel(index, "ipperf_top", version, tag, compiled="none" not in tag)
    for path in index.iterdir():
        Cache(CACHE_SECTION).put(path.read_bytes())
    for python, tag in ((host(), tags[2]), (host(libc=("glibc", "2.17")), tags[1]), (host("3.13.1"), tags[0])):
        taken = [found(f"ipperf-top=={version}", python) for version in versions]
        assert taken == [(version, [tag]) for version in versions]
    assert found("ipperf-top", host()) == (versions[-1], [tags[2]])


def test_for_a_compiled_one_the_index_is_asked_once_where_a_pure_one_is_kept(index, monkeypatch):
    asked, run = [], subprocess.run

    def counted(argv, **more):
        asked.append([each for each in argv if each.startswith("ipperf")])
        return run(argv, **more)

    wanted = {Requirement(f"ipperf-{letter}"): True for letter in "ab"}
    for each in wanted:
        wheel(index, each.name.replace("-", "_"))
        assert found(each.name, host())
    monkeypatch.setattr(subprocess, "run", counted)
    every = Wheels()
    for python in (host(libc=("", "")), host(), host()):
        every.prepare(wanted, python)
        got = [every.find(each, python, compiled=True) for each in wanted]
        assert [each and each.compiled for each in got] == [False, False]
    assert asked == [["ipperf-a", "ipperf-b"]], "only pure ones run where the C library is not known"
    assert Wheels().find(Requirement("ipperf-a"), host()), "pure Python is as good where there is nothing else"
    assert len(asked) == 1
    monkeypatch.setattr(wheels, "_VAIN_S", -1.0)
    assert Wheels().find(Requirement("ipperf-a"), host(), compiled=True)
    assert len(asked) == 1


def test_time_in_which_an_index_has_answered_is_not_in_vain(index):
    """An answer counts even if the index has nothing new."""
    wheel(index, "ipperf_top")
    assert found("ipperf-top", host())
    every = Wheels()
    assert every.find(Requirement("ipperf-top"), host(), compiled=True)
    assert every._vain_s == 0


def test_what_pip_notes_is_for_our_eyes_alone(index_of_new_pips, monkeypatch):
    seen, run = [], subprocess.run

    def looked(argv, **settings):
        (log,) = (Path(each.removeprefix("--log=")) for each in argv if each.startswith("--log="))
        done = run(argv, **settings)
        seen.append((log.stat().st_mode & 0o777, bool(log.read_text())))
        return done

    monkeypatch.setattr(subprocess, "run", looked)
    assert Wheels().find(Requirement("ipperf-nothing"), host()) is None
    assert seen == [(0o600, True)]


def test_what_is_no_wheel_is_told(index):
    for data in (b"", b"PK", hashlib.sha256().digest()):
        with pytest.raises(ValueError, match="no wheel"):
            Wheel.of(data)


# --- what pip says ----------------------------------------------------------------------------------------------------


def test_an_index_that_cannot_be_reached_is_told_without_its_password(index_of_new_pips, monkeypatch):
    installed(index_of_new_pips.parent / "here", "ipperf_top", "Requires-Dist: ipperf-old")
    monkeypatch.delenv("PIP_NO_INDEX")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "*")
    with refusing_port() as port:
        place = f"127.0.0.1:{port}/simple"
        monkeypatch.setenv("PIP_INDEX_URL", f"http://somebody:secret@{place}")
        with pytest.raises(LabError) as caught:
            package_archive(("ipperf-top",), host())
    said = str(caught.value)
    assert said.startswith(
        "its Python 3.12.4 needs ipperf-old, which is not installed here to be sent; install ipperf-top on the host, "
        f"or ipperf-old here; pip said: Could not fetch URL http://{place}/ipperf-old/: connection error: "
    )
    assert "Connection refused" in said
    assert not [each for each in ("somebody", "secret", "skipping", "\n") if each in said]


@pytest.mark.parametrize(
    ("said", "noted", "reported"),
    [
        ("", "", ""),
        ("WARNING: one\nERROR: \x1b[31mtwo\n", "", "pip said: ERROR: ?[31mtwo"),
        (
            "ERROR: none",
            "T Could not fetch URL https://a/b/: 404 Client Error: Not Found - skipping",
            "pip said: ERROR: none",
        ),
        (
            "ERROR: none",
            "T Could not fetch URL https://u:****@a/b/: a problem confirming the ssl certificate: no - skipping\nT",
            "pip said: Could not fetch URL https://a/b/: a problem confirming the ssl certificate: no",
        ),
        (
            "ValueError: Port of htp://u:se@cr/et@a:b/ and http://u@c",
            "",
            "pip said: ValueError: Port of htp://a:b/ and http://c",
        ),
    ],
    ids=["nothing", "last", "not-there", "certificate", "users"],
)
def test_what_pip_complains_of_is_one_line_for_everyone(said, noted, reported):
    assert wheels._complaint(said, noted) == reported


@pytest.mark.parametrize(
    ("pip", "reported"),
    [
        ("/nowhere/pip", "pip cannot be started (No such file or directory)"),
        ("/bin/false", "pip ended with status 1"),
        ("/bin/true", ""),
    ],
)
def test_a_pip_that_says_nothing_is_told(index_of_new_pips, monkeypatch, pip, reported):
    monkeypatch.setattr(wheels, "_pip", lambda: (pip,))
    every = Wheels()
    assert every.find(Requirement("ipperf-a"), host()) is None
    assert every.why(Requirement("ipperf-a"), host()) == reported
    assert every.why(Requirement("ipperf-b"), host()) == ""


# --- what is sent -----------------------------------------------------------------------------------------------------


def test_a_host_with_another_python_gets_the_same_version_for_it(index):
    installed(index.parent / "here", "ipperf_top", "Requires-Dist: ipperf-pure", compiled=True)
    installed(index.parent / "here", "ipperf_pure")
    wheel(
        index, "ipperf_top", "1.0", tag := "cp312-cp312-manylinux_2_17_x86_64", requires=["ipperf-pure"], compiled=True
    )
    wheel(index, "ipperf_top", "1.1", tag, compiled=True)
    sent = package_archive(("ipperf-top",), host())
    assert sent.stripped == ()
    files = contents(sent)
    assert sorted(files) == [
        "ipperf_pure-1.0.dist-info/METADATA", "ipperf_pure.py", "ipperf_top-1.0.dist-info/METADATA",
        "ipperf_top.py", "ipperf_top_c.so", "ipperf_top_more.py",
    ]  # fmt: skip
    assert files["ipperf_top_c.so"] == tag


def test_without_a_wheel_for_it_pure_python_is_sent_and_said(index):
    installed(index.parent / "here", "ipperf_root", "Requires-Dist: ipperf-top")
    installed(index.parent / "here", "ipperf_top", compiled=True)
    wheel(index, "ipperf_top", "1.0", "cp311-cp311-manylinux_2_17_x86_64", compiled=True)
    sent = package_archive(("ipperf-root",), host())
    assert set(sent.stripped) == {"ipperf-root", "ipperf-top"}
    assert not [name for name in contents(sent) if name.endswith(".so")]


def test_a_pure_wheel_that_is_kept_does_not_stand_in_the_way_of_a_compiled_one(index, monkeypatch):
    installed(index.parent / "here", "ipperf_top", compiled=True)
    wheel(index, "ipperf_top")
    assert package_archive(("ipperf-top",), host(libc=("", ""))).stripped == ("ipperf-top",)
    wheel(index, "ipperf_top", tag="cp312-cp312-manylinux_2_17_x86_64", compiled=True)
    for _ in range(2):
        afresh(monkeypatch)
        sent = package_archive(("ipperf-top",), host())
        assert (sent.stripped, "ipperf_top_c.so" in contents(sent)) == ((), True)
        shutil.rmtree(index, ignore_errors=True)


def test_a_wheel_without_compiled_modules_is_pure_python_too(index):
    installed(index.parent / "here", "ipperf_top", compiled=True)
    wheel(index, "ipperf_top")
    assert package_archive(("ipperf-top",), host()).stripped == ("ipperf-top",)


def test_what_only_its_python_needs_comes_from_the_index_in_a_version_that_all_allow(index):
    old = 'Requires-Dist: ipperf-old>=1; python_version < "3.11"'
    installed(index.parent / "here", "ipperf_top", old, "Requires-Dist: ipperf-also")
    installed(index.parent / "here", "ipperf_also", 'Requires-Dist: ipperf-old<3; python_version < "3.11"')
    for version in ("0.9", "1.5", "2.5", "3.5"):
        wheel(index, "ipperf_old", version, requires=['ipperf-deep; python_version < "3.11"'])
    wheel(index, "ipperf_deep", "7.0")
    sent = contents(package_archive(("ipperf-top",), host("3.10.9")))
    versions = {name.split("/")[0] for name in sent if ".dist-info/" in name}
    assert versions == {
        "ipperf_also-1.0.dist-info", "ipperf_deep-7.0.dist-info", "ipperf_old-2.5.dist-info",
        "ipperf_top-1.0.dist-info",
    }  # fmt: skip
    assert not [name for name in contents(package_archive(("ipperf-top",), host())) if "old" in name]


def test_an_older_version_goes_where_ours_does_not_run(index, monkeypatch):
    installed(index.parent / "here", "ipperf_top", "Requires-Dist: ipperf-new")
    installed(index.parent / "here", "ipperf_new", "Requires-Python: >=3.11")
    with pytest.raises(LabError) as caught:
        package_archive(("ipperf-top",), host("3.10.9"))
    assert str(caught.value) == (
        "its Python 3.10.9 does not run ipperf-new 1.0, which is installed here and wants >=3.11; "
        "install ipperf-top on the host, or an older ipperf-new here; "
        "pip said: ERROR: No matching distribution found for ipperf-new"
    )
    afresh(monkeypatch)
    wheel(index, "ipperf_new", "0.5", python=">=3.8")
    wheel(index, "ipperf_new", "0.9", python=">=3.11")
    assert "ipperf_new-0.5.dist-info/METADATA" in contents(package_archive(("ipperf-top",), host("3.10.9")))


# --- for real ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def real(tmp_path, monkeypatch):
    """Return a reachable index, configured as on this machine."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    afresh(monkeypatch)
    if not Wheels().find(Requirement("propcache"), host()):
        pytest.skip("no pip here, or no package index within reach")


def test_compiled_modules_run_on_another_python_of_this_machine(real, tmp_path):
    """Its additional dependencies, such as async-timeout on 3.10, are sent, too."""
    others = [path for version, path in bare_pythons() if version[:2] != sys.version_info[:2]]
    if not others:
        pytest.skip("no other Python from 3.10 on here")
    reported = subprocess.run(
        [others[0], "-I", "-S", "-c", TOLD, ROOT], capture_output=True, text=True, check=True
    ).stdout
    sent = package_archive(
        ("aiohttp>=3.8", "aioftp", "aiosmtplib", "aiosmtpd"), Python.from_report(json.loads(reported))
    )
    assert sent.stripped == ()
    zipfile.ZipFile(io.BytesIO(sent.data)).extractall(tmp_path / "sent")
    argv = [others[0], "-I", "-S", "-c", IMPORTED, tmp_path / "sent", "aiohttp.web", "aioftp", "aiosmtplib"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {"aiohttp._http_parser", "multidict._multidict", "yarl._quoting_c"} <= set(done.stdout.split())


def test_what_a_killed_pip_had_fetched_is_swept(tmp_path, monkeypatch):
    """Wheels are fetched into a private folder, whose lock is released with its owner."""
    code = "import os, sys; (folder,) = [x[7:] for x in sys.argv if x[:7] == '--dest=']; print(os.listdir(folder))"
    reported, run = [], subprocess.run

    def seen(*arguments, **settings):
        done = run(*arguments, **settings)
        reported.append(done.stdout)
        return done

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    left = tmp_path / "ipperf-killed"
    left.mkdir()
    (left / ".lock").touch()
    os.utime(left / ".lock", (0, 0))
    monkeypatch.setattr(wheels, "_pip", lambda: (sys.executable, "-c", code))
    monkeypatch.setattr(subprocess, "run", seen)
    assert Wheels().find(Requirement("nothing"), OURS) is None
    assert [sorted(literal_eval(each)) for each in reported] == [[".lock", "log"]]
    assert not list(tmp_path.glob("ipperf-*"))
