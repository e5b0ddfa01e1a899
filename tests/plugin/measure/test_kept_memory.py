"""Memory of long sessions: a cell that has ended leaves behind little more than its workload releases."""

import pytest

from tests.support.sessions.kept_memory import TRACED
from tests.support.sessions.projects import Project
from tests.support.sessions.xdist_workers import HOSTS, add_hook

FIRST, LAST = 12, 44
SUITE = """
    import pytest

    @pytest.mark.smtp
    @pytest.mark.levels(connections=[1, 2], payload={payloads!r})
    @pytest.mark.margin("10%", at_least="0.5ms")
    def test_smtp_response_time(measured, margin):
        assert measured.slowdown <= margin
"""


class SmallProject(Project):
    """A project whose simulated runs have few connections, as samples are released."""

    connections = 4


@pytest.mark.parametrize(
    ("testbeds", "arguments", "most_bytes"),
    [("one", [], 0), ("one,two", ["-n2"], 800)],
    ids=["main_process", "controller_of_xdist"],
)
def test_a_cell_leaves_few_bytes_behind(pytester, testbeds, arguments, most_bytes):
    project = SmallProject(pytester)
    cells = LAST // len(testbeds.split(","))
    pytester.makepyfile(SUITE.format(payloads=[str(1000 + each) for each in range(cells // 2 + 1)]))
    (pytester.path / "hosts.ini").write_text(HOSTS)
    project.network()
    add_hook(project, TRACED.format(after=(FIRST, LAST)))
    outcome = project.run(*arguments, testbed=testbeds)
    assert outcome.ret == 0
    began, ended = map(int, (pytester.path / "traced").read_text().split())
    assert (ended - began) / (LAST - FIRST) < most_bytes
