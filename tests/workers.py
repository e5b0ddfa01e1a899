"""Inner sessions whose testbeds are measured side by side by workers of xdist."""

import textwrap

import pytest

HOSTS = """
[testbed one]
client = a
server = b
[testbed two]
client = c
server = d
[host a]
way = ssh
ssh = a.test
ipv4 = 192.0.2.1
ipv6 = 2001:db8::1
[host b]
way = ssh
ssh = b.test
ipv4 = 192.0.2.2
ipv6 = 2001:db8::2
[host c]
way = ssh
ssh = c.test
ipv4 = 192.0.2.3
ipv6 = 2001:db8::3
[host d]
way = ssh
ssh = d.test
ipv4 = 192.0.2.4
ipv6 = 2001:db8::4
"""


@pytest.fixture
def two_testbeds(project):
    """A project of two testbeds that share nothing; `--testbed=one,two` measures on both."""
    project.network()
    (project.pytester.path / "hosts.ini").write_text(HOSTS)
    return project


def run(project, *arguments, testbed="loopback"):
    """An inner session that ends by itself, or the test fails."""
    return project.pytester.runpytest_subprocess(*project._arguments(testbed, arguments), timeout=200)


def add_hook(project, text):
    """A hook for the conftest of the inner sessions."""
    conftest = project.pytester.path / "conftest.py"
    conftest.write_text(f"{conftest.read_text()}\n\n{textwrap.dedent(text)}")
