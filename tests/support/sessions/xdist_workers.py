"""Inner sessions whose testbeds are measured in parallel by workers of xdist."""

import textwrap

import pytest

HOST = """
[host {name}]
way = ssh
ssh = {name}.test
ipv4 = 192.0.2.{number}
ipv6 = 2001:db8::{number}
"""
HOSTS = """
[testbed one]
client = a
server = b
[testbed two]
client = c
server = d
""" + "".join(HOST.format(name=name, number=number) for number, name in enumerate("abcd", start=1))


@pytest.fixture
def two_testbeds(project):
    """A project of two testbeds that share nothing; `--testbed=one,two` measures on both."""
    project.network()
    (project.pytester.path / "hosts.ini").write_text(HOSTS)
    return project


def run(project, *arguments, testbed="loopback"):
    """Run an inner session; fail the test if it does not end by itself."""
    return project.pytester.runpytest_subprocess(*project._arguments(testbed, arguments), timeout=200)


def add_hook(project, text):
    """Add a hook to the conftest of the inner sessions."""
    conftest = project.pytester.path / "conftest.py"
    conftest.write_text(f"{conftest.read_text()}\n\n{textwrap.dedent(text)}")
