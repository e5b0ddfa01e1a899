"""The code archive: source for every Python, and compiled code for one like ours."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import zipfile
from importlib.util import MAGIC_NUMBER
from pathlib import Path

from pytest_ipperf.agent.packages.bytecode import compiled, in_zip_path
from pytest_ipperf.lab.agents import bootstrap
from pytest_ipperf.lab.agents.client import AgentClient
from pytest_ipperf.lab.agents.code_archive import code_archive, code_file, digests, stored_archive
from pytest_ipperf.lab.inventory.builtin import BUILTIN


def names(packed, tmp_path):
    file = tmp_path / "cargo.zip"
    file.write_bytes(packed)
    with zipfile.ZipFile(file) as archive:
        return set(archive.namelist()), file


def test_a_python_like_ours_gets_compiled_code_beside_the_source(tmp_path):
    plain, _ = names(code_archive(), tmp_path)
    both, file = names(code_archive(MAGIC_NUMBER), tmp_path)
    assert all(name.endswith(".py") for name in plain)
    assert both == plain | {f"{name}c" for name in plain}
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import pytest_ipperf.agent.paths.routes as m, inspect; "
        "print(m.__spec__.cached or m.__file__); print(inspect.getsource(m).splitlines()[0])"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code, file], capture_output=True, text=True, check=True)
    where, first = done.stdout.splitlines()
    assert where.endswith("pytest_ipperf/agent/paths/routes.pyc")  # it is what runs
    assert first.startswith('"""')  # and what a traceback shows is there too


def test_another_python_gets_source_alone(tmp_path):
    assert names(code_archive(b"1234"), tmp_path)[0] == names(code_archive(), tmp_path)[0]


def test_compiled_code_is_the_same_in_every_process():
    """It must not depend on what a process has loaded, or a host would be sent again what it has in its cache."""
    code = """{}
import argparse, hashlib, io, sys, zipfile
from pytest_ipperf.agent.packages.bytecode import in_zip_path, compiled
made = io.BytesIO()
with zipfile.ZipFile(made, "w") as archive:
    archive.write(argparse.__file__, "argparse.py")
print(hashlib.sha256(compiled(made.getvalue(), in_zip_path)).hexdigest())
"""
    said = set()
    for seed, before in (("1", ""), ("2", "import pytest, packaging.version, execnet")):
        argv = [sys.executable, "-c", code.format(before)]
        env = {**os.environ, "PYTHONHASHSEED": seed}
        said.add(subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout)
    assert len(said) == 1


def test_code_that_an_import_has_compiled_before_is_the_same_as_compiled_anew():
    """From `__pycache__`, or from a copy of the package without one: a host keeps one archive."""
    assert zipped(code_archive(MAGIC_NUMBER)) == zipped(compiled(code_archive(), in_zip_path))


def zipped(packed):
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        return {entry.filename: archive.read(entry) for entry in archive.infolist()}


def test_digests_are_those_of_what_is_sent():
    reported = {magic: hashlib.sha256(code_archive(magic)).hexdigest() for magic in (b"", MAGIC_NUMBER)}
    assert digests() == reported
    assert len(set(reported.values())) == 2


def test_for_this_machine_the_same_is_stored_and_not_compressed():
    with zipfile.ZipFile(io.BytesIO(stored_archive())) as archive:
        assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_STORED}
    assert zipped(stored_archive()) == zipped(code_archive(MAGIC_NUMBER))
    assert Path(f"/proc/self/fd/{code_file()}").read_bytes() == stored_archive()


def test_an_agent_on_this_machine_is_sent_what_is_not_compressed(monkeypatch):
    def refused(_magic):
        raise AssertionError("compressed")

    monkeypatch.setattr(bootstrap, "code_archive", refused)
    with AgentClient(BUILTIN["loopback"].server) as agent:
        assert agent.hello().pid


def test_the_same_source_is_the_same_cargo_whenever_it_is_packed():
    for magic in (b"", MAGIC_NUMBER):
        with zipfile.ZipFile(io.BytesIO(code_archive(magic))) as archive:
            assert {entry.date_time[0] for entry in archive.infolist()} == {1980}


def test_what_is_no_module_is_left_as_it_is():
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("broken.py", "def")
        archive.writestr("old.py", 'print("\\d")')
        archive.writestr("notes.txt", "")
    with zipfile.ZipFile(io.BytesIO(compiled(made.getvalue(), in_zip_path))) as archive:
        assert archive.namelist() == ["broken.py", "old.py", "old.pyc", "notes.txt"]
