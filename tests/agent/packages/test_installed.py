"""Packages that a host reports, and those that it is sent."""

from __future__ import annotations

import hashlib
import importlib
import io
import os
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.markers import default_environment

from pytest_ipperf.agent.packages.installed import Packages, interpreter
from pytest_ipperf.core.portable.errors import LabError

SENT = {"ipperf_sent.py": "WHERE = __file__", "ipperf_sent-3.2.dist-info/METADATA": "Name: ipperf-sent\nVersion: 3.2\n"}


def zipped(files):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return packed.getvalue()


@pytest.fixture
def packages(tmp_path, tmp_path_factory, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield Packages(tmp_path)
    sys.modules.pop("ipperf_sent", None)
    importlib.invalidate_caches()


def test_what_is_here_has_its_version_and_what_is_not_has_none(packages):
    state = packages.installed(["pytest", "ipperf-sent"])
    assert state["versions"] == {"pytest": version("pytest"), "ipperf-sent": ""}
    assert packages.env == {}


def test_what_was_sent_is_imported_from_the_private_folder_behind_the_agents_own_code(packages, tmp_path):
    first = sys.path[0]
    packages.unpack("abc", zipped(SENT), [])
    assert packages.installed(["ipperf-sent"])["versions"] == {"ipperf-sent": "3.2"}
    assert str(tmp_path / "packages-abc" / "ipperf_sent.py") == importlib.import_module("ipperf_sent").WHERE
    assert sys.path[:2] == [first, str(tmp_path / "packages-abc")]
    assert packages.env == {"PYTHONPATH": str(tmp_path / "packages-abc")}


def test_the_same_parcel_is_unpacked_once(packages):
    packages.unpack("abc", zipped(SENT), [])
    packages.unpack("abc", b"no zip at all", [])
    packages.unpack("def", zipped({"another.py": ""}), [])
    assert len(packages.env["PYTHONPATH"].split(":")) == 2


def test_what_lost_its_compiled_modules_is_remarked_on(packages):
    packages.unpack("abc", zipped(SENT), ["ipperf-sent"])
    assert packages.installed(["ipperf-sent"])["versions"] == {"ipperf-sent": "3.2 (pure Python)"}
    assert packages.remark(["pytest", "ipperf-sent"]) == " (pure Python)"
    assert packages.remark(["pytest"]) == ""


def test_what_is_kept_is_unpacked_without_being_sent_and_compiled(packages, tmp_path, tmp_path_factory):
    elsewhere = Packages(tmp_path_factory.mktemp("elsewhere"))
    data = zipped(SENT)
    digest = hashlib.sha256(data).hexdigest()
    assert packages.unpack_kept(digest, []) is False
    elsewhere.unpack_and_keep(digest, data, [])
    assert packages.unpack_kept(digest, ["ipperf-sent"]) is True
    assert packages.installed(["ipperf-sent"])["versions"] == {"ipperf-sent": "3.2 (pure Python)"}
    assert importlib.import_module("ipperf_sent").WHERE.startswith(str(tmp_path)), "nothing is imported from the cache"
    (code,) = (tmp_path / f"packages-{digest}" / "__pycache__").iterdir()
    assert code.name.startswith("ipperf_sent.")


def test_what_is_kept_is_told_and_forgotten(packages):
    folder = f"{os.environ['XDG_CACHE_HOME']}/pytest-ipperf"
    assert packages.cache_state() == {"folder": folder, "entries": 0, "bytes": 0, "note": ""}
    data = zipped({"ipperf_sent.py": "", "__pycache__/ipperf_sent.pyc": ""})
    packages.unpack_and_keep("abc", data, [])
    state = {"folder": folder, "entries": 1, "bytes": len(data), "note": ""}
    assert packages.cache_state() == state
    assert packages.forget() == state
    assert packages.forget()["entries"] == 0
    assert not Path(folder).exists()


def test_no_room_for_a_parcel_is_told(packages, tmp_path):
    (tmp_path / "packages-abc").write_text("in the way")
    with pytest.raises(LabError) as caught:
        packages.unpack("abc", zipped(SENT), [])
    why = f"packages cannot be unpacked in {tmp_path}/packages-abc: Not a directory; free some space"
    assert str(caught.value) == why


def test_the_variables_of_markers_are_those_of_pep_508():
    assert interpreter()["markers"] == default_environment()
