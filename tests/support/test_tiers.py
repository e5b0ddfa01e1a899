"""Each test has one tier, and a unit test can start no process and open no connection."""

from __future__ import annotations

from tests.support.tiers import PLACES, TIERS, TOP, may_have, tier_of

IMPURE = """\
import os
import socket
import subprocess
import sys

import pytest

ACTS = {
    "process": lambda: subprocess.run([sys.executable, "-V"], check=True),
    "shell": lambda: os.system("true"),
    "fork": lambda: os.fork() or os._exit(0),
    "connect": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(("127.0.0.1", 9)),
    "bind": lambda: socket.socket().bind(("127.0.0.1", 0)),
}

@pytest.fixture
def acted(request):
    ACTS[request.param]()

@pytest.mark.unit
@pytest.mark.parametrize("act", ACTS)
def test_unit(act):
    ACTS[act]()

@pytest.mark.unit
@pytest.mark.parametrize("acted", ACTS, indirect=True)
def test_fixture(acted):
    pass

@pytest.mark.host
@pytest.mark.parametrize("act", ["process", "bind"])
def test_host(act):
    ACTS[act]()

@pytest.mark.unit
def test_pure(tmp_path):
    (tmp_path / "file").write_text("x")
    here, there = socket.socketpair()
    with here, there:
        here.send(b"x")
"""


def test_each_file_has_a_tier_and_the_table_no_line_too_many():
    assert [str(path) for path in TOP.rglob("test_*.py") if tier_of(path) not in TIERS] == []
    assert [place for place in PLACES if not (TOP / place).exists()] == []
    inner = [place for place in PLACES if "/" in place]
    assert [place for place in inner if PLACES[place] == tier_of((TOP / place).parent)] == []


def test_each_collected_test_has_one_tier(request):
    mine = [item for item in request.session.items if item.path.is_relative_to(TOP)]
    assert mine
    tiers = {item: [tier for tier in TIERS if item.get_closest_marker(tier)] for item in mine}
    assert [item.nodeid for item in mine if len(tiers[item]) != 1] == []
    assert [item.nodeid for item in mine if not may_have(item.path, *tiers[item])] == []


def test_a_unit_test_starts_nothing_and_opens_no_connection(pytester):
    pytester.makepyfile(IMPURE)
    result = pytester.runpytest_subprocess("-p", "tests.support.tiers", "-p", "no:randomly", "-p", "no:ipperf", "-rA")
    result.assert_outcomes(passed=3, failed=5, errors=5)
    result.stdout.fnmatch_lines(["*socket.bind in a unit test: *test_unit?bind? belongs to another tier*"])
