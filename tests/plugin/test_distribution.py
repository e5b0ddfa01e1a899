"""Under xdist: one testbed, one worker; testbeds that share a machine are one."""

import pytest

from pytest_ipperf.lab.inventory import BUILTIN, Host, Testbed
from pytest_ipperf.plugin.distribution import TestbedScheduling, independent

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


def remote(name: str, client: str, server: str, domain: str = "") -> Testbed:
    hosts = [Host(name=each, way="ssh", ipv4="192.0.2.1", settings={"ssh": each}) for each in (client, server)]
    return Testbed(name=name, client=hosts[0], server=hosts[1], domain=domain)


def test_testbeds_that_share_a_host_or_a_link_through_others_are_one_group():
    chain = [remote("p", "a", "b"), remote("q", "c", "d"), remote("r", "b", "c"), remote("s", "e", "f")]
    assert sorted(map(sorted, independent(chain))) == [["p", "q", "r"], ["s"]]
    linked = [remote("p", "a", "b", "switch"), remote("q", "c", "d", "switch")]
    assert independent(linked) == [{"p", "q"}]
    assert independent(BUILTIN.values()) == [{"lab", "loopback"}]


class Worker:
    """What xdist's WorkerController is to a scheduler."""

    def __init__(self, name):
        self.gateway = type("Gateway", (), {"id": name})
        self.given, self.shutting_down = [], False

    def send_runtest_some(self, indices):
        self.given += indices

    def shutdown(self):
        self.shutting_down = True


@pytest.fixture
def scheduling(pytestconfig):
    config = type("Config", (), {"getvalue": lambda _, name: {"tx": ["2*popen"]}[name], "hook": pytestconfig.hook,
                                 "option": type("O", (), {"tx": ["2*popen"]})})()  # fmt: skip
    return TestbedScheduling(config, [{"one"}, {"two"}])


NODES = [f"test_a.py::test[{bed}-smtp-c{n}-1k-ipv6]" for bed in ("one", "two") for n in (1, 10, 100)]


def started(scheduling):
    workers = [Worker("gw0"), Worker("gw1")]
    for worker in workers:
        scheduling.add_node(worker)
        scheduling.add_node_collection(worker, NODES)
    scheduling.schedule()
    return workers


def test_a_testbed_goes_to_one_worker_whole(scheduling):
    first, second = started(scheduling)
    assert (first.given, second.given) == ([0, 1, 2], [3, 4, 5])
    for worker in (first, second):
        for index in worker.given:
            scheduling.mark_test_complete(worker, index)
        assert worker.shutting_down
    assert scheduling.tests_finished


def test_what_a_dead_worker_leaves_goes_to_another_but_for_the_item_it_died_in(scheduling):
    first, second = started(scheduling)
    scheduling.mark_test_complete(first, 0)
    assert scheduling.remove_node(first) == NODES[1]
    replacement = Worker("gw2")
    scheduling.add_node(replacement)
    scheduling.add_node_collection(replacement, NODES)
    scheduling.schedule()
    assert replacement.given + second.given[3:] == [2]


def test_a_worker_that_found_other_tests_is_refused(scheduling):
    started(scheduling)
    with pytest.raises(RuntimeError, match="Different tests were collected"):
        scheduling.add_node_collection(Worker("gw2"), NODES[:2])


def test_two_testbeds_are_measured_by_two_workers_and_auto_counts_them(project):
    project.network()
    (project.pytester.path / "hosts.ini").write_text(HOSTS)
    result = project.run("--testbed=one,two", "-n", "auto", "-v", testbed="")
    result.assert_outcomes(passed=4)
    lines = [line for line in result.outlines if "PASSED" in line]
    workers = {bed: {line.split("]")[0] for line in lines if f"[{bed}-" in line} for bed in ("one", "two")}
    assert {bed: len(found) for bed, found in workers.items()} == {"one": 1, "two": 1}
    assert workers["one"] != workers["two"]
    result.stdout.fnmatch_lines(["*testbed one, server synthetic*", "*testbed two, server synthetic*"])


def test_verdicts_and_exit_status_come_through_from_the_workers(project):
    project.network(slower=0.09, noise=0.2)
    result = project.run("-n", "2")
    result.stdout.fnmatch_lines(["INCONCLUSIVE *", "no cell was decided*", "*2 inconclusive in *"])
    assert result.ret == 10
    project.network()
    project.run("--lf", "-n", "2").assert_outcomes(passed=2)


def test_a_crashed_worker_loses_only_its_item(project):
    project.network()
    conftest = project.pytester.path / "conftest.py"
    crash = "\n\ndef pytest_runtest_call(item):\n    import os\n    'c1-' in item.name and os._exit(9)\n"
    conftest.write_text(conftest.read_text() + crash)
    result = project.run("-n", "1")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*worker 'gw0' crashed while running*c1-1k-ipv6*"])


def test_dist_each_is_refused(project):
    result = project.run("-n", "1", "--dist=each")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --dist=each would measure on one testbed from several workers at once*"])


def test_plain_tests_are_spread_by_file(project):
    for number in range(3):
        project.pytester.makepyfile(**{f"test_{number}": "def test_a(): pass\ndef test_b(): pass"})
    project.run("-n", "2", "-k", "test_a or test_b").assert_outcomes(passed=6)
