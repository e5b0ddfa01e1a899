"""No server is an open relay: mail for elsewhere is refused, or taken as any other is and never sent on."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_ipperf.servers import SERVERS
from tests.support.needs import require
from tests.system.security.relaying import LEAK, RECIPIENTS, SENDERS

ROOT = Path(__file__).parents[3]
SMTP = sorted(name for name in SERVERS if SERVERS[name].protocol == "smtp")

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="a network of its own, in which all packets are seen, needs root"
)


def tried(name):
    """What came of it."""
    if name in SERVERS and (why := SERVERS[name].missing()):
        pytest.skip(f"{name} cannot run here: {why}")
    require("ip")
    words = ["unshare", "--net", sys.executable, "-m", "tests.system.security.relaying", name]
    env = {**os.environ, "TMPDIR": "/tmp"}
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert not done.returncode, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", SMTP)
def test_nothing_leaves_whatever_is_asked_of_it(name):
    report = tried(name)
    assert list(report["said"]) == list(RECIPIENTS)
    assert all(len(codes) == len(SENDERS) for codes in report["said"].values())
    assert any(250 in codes for codes in report["said"].values())  # or nothing was tried
    assert report["quiet"] == ""
    assert report["files"] == []
    assert report["seen"]["trap"] == []
    assert any(report["port"] in ports for ports in report["seen"]["lo"])
    assert [ports for ports in report["seen"]["lo"] if report["port"] not in ports] == []


@pytest.mark.skipif(
    bool(SERVERS["postfix"].missing()), reason=f"postfix cannot run here: {SERVERS['postfix'].missing()}"
)
def test_postfix_throws_away_all_that_it_has_held_once_it_is_released():
    report = tried("postfix")
    taken = sum(code == 250 for codes in report["said"].values() for code in codes)
    assert report["kept"] == taken
    deliveries = re.findall(r" to=<.*>, (?:orig_to=<.*>, )?relay=(\S+),.* status=(\S+) ", report["log"])
    assert set(deliveries) == {("none", "sent")}
    assert len(deliveries) == taken
    assert re.findall(r"postfix/(\w+)\[\d+\]: \w+: (?:orig_)?to=", report["log"]) == ["discard"] * taken
    assert "postfix/smtp[" not in report["log"]
    assert "postfix/local[" not in report["log"]
    assert "postfix/bounce[" not in report["log"]


def test_what_would_leave_would_be_seen():
    """Or the tests above would prove nothing."""
    assert {port for _, port in tried(LEAK)["seen"]["trap"]} == {25}
