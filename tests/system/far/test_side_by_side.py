"""`-n auto` on real hosts: as many workers as testbeds that share neither host nor link, whatever they are called."""

from __future__ import annotations

import re

COUNT = """
from pathlib import Path
from pytest_ipperf.lab.inventory import read_inventory
from pytest_ipperf.plugin.distribution.scheduler import independent
found = read_inventory(Path({inventory!r}))
print(len(independent(found[name] for name in {names!r})))
"""


def groups_of(stands, *names):
    """How many of these testbeds can be measured side by side, as the controller sees its hosts."""
    return int(stands.python(COUNT.format(inventory=str(stands.inventory), names=names)))


def test_testbeds_of_a_domain_are_one(farm):
    stands = farm(testbeds=2, domain="switch")
    assert groups_of(stands, "bed1", "bed2") == 1
    said, _ = stands.session("-n", "auto", "-k", "nothing").communicate(timeout=200)
    assert re.search(r"^created: 1/1 worker$", said, re.MULTILINE), said


def test_testbeds_that_share_a_host_under_another_name_are_one(farm):
    stands = farm(testbeds=2)
    config = stands.ssh_config.read_text()
    stands.ssh_config.write_text(config.replace("Host server1\n", "Host server1 spare\n"))
    own = stands.inventory.read_text().partition("[host server1]\n")[2].partition("\n\n")[0]
    spare = own.replace("ssh = server1", "ssh = spare")
    third = f"[host spare]\n{spare}\n[testbed third]\nclient = client2\nserver = spare\n"
    stands.inventory.write_text(f"{stands.inventory.read_text()}\n{third}")
    assert groups_of(stands, "bed1", "bed2") == 2
    assert groups_of(stands, "bed1", "third") == 1
    assert groups_of(stands, "bed1", "bed2", "third") == 1
