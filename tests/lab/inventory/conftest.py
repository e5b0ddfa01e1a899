"""Keep the tests of the inventory from asking ssh where its configuration leads a name (tests/lab/access does that)."""

import pytest

from pytest_ipperf.lab.access import ssh


@pytest.fixture(autouse=True)
def _plain_ssh_configuration(monkeypatch):
    """Stand for a configuration of ssh that redirects no name."""
    monkeypatch.setattr(ssh, "_redirects", lambda _: False)
