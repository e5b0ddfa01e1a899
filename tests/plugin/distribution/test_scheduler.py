"""Under xdist a testbed is measured by one worker; testbeds that share a machine count as one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.design.cell import Arm, Cell, Workload
from pytest_ipperf.core.portable.traffic.model import MODEL_NAME_PATTERN
from pytest_ipperf.core.portable.units import bytes_text
from pytest_ipperf.lab.inventory.builtin import BUILTIN
from pytest_ipperf.lab.inventory.model import Host, Testbed
from pytest_ipperf.plugin.distribution.scheduler import TestbedScheduling, cell_pattern, independent
from pytest_ipperf.plugin.options.declarations import CLIENTS
from pytest_ipperf.protocols import PROTOCOLS
from tests.support.sessions.project_settings import STRICT
from tests.support.sessions.xdist_workers import add_hook, run


def remote(name: str, client: str, server: str, domain: str = "") -> Testbed:
    hosts = [Host(name=each, way="ssh", ipv4="192.0.2.1", settings={"ssh": each}) for each in (client, server)]
    return Testbed(name=name, client=hosts[0], server=hosts[1], domain=domain)


def test_testbeds_that_share_a_host_or_a_link_through_others_are_one_group():
    chain = [remote("p", "a", "b"), remote("q", "c", "d"), remote("r", "b", "c"), remote("s", "e", "f")]
    assert sorted(map(sorted, independent(chain))) == [["p", "q", "r"], ["s"]]
    linked = [remote("p", "a", "b", "switch"), remote("q", "c", "d", "switch")]
    assert independent(linked) == [{"p", "q"}]
    assert independent(BUILTIN.values()) == [{"lab", "pair", "loopback"}]


class Worker:
    """The part of xdist's WorkerController that a scheduler uses."""

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
    beds = [remote("one", "a", "b"), remote("two", "c", "d"), remote("bridge", "b", "c")]
    return TestbedScheduling(config, {bed.name: bed for bed in beds}, lambda nodeids: None)


NODES = [f"test_a.py::test[{bed}-smtp-c{n}-1k-ipv6]" for bed in ("one", "two") for n in (1, 10, 100)]


def started(scheduling, nodes=NODES):
    workers = [Worker("gw0"), Worker("gw1")]
    for worker in workers:
        scheduling.add_node(worker)
        scheduling.add_node_collection(worker, nodes)
    scheduling.schedule()
    return workers


def auto_count(project, *arguments):
    """Return the number of workers for `-n auto`, without starting them; another plugin would answer 7."""
    add_hook(project, """
        import pytest

        def pytest_xdist_auto_num_workers():
            return 7

        @pytest.hookimpl(tryfirst=True)
        def pytest_configure(config):
            pytest.exit(f"{config.option.numprocesses} workers", 0)
    """)  # fmt: skip
    result = run(project, "-n", "auto", *arguments, testbed="")
    return int(result.stderr.str().split()[1])


def workers_of(result):
    """Return, per testbed, the workers that measured on it, from the lines of `-v`."""
    lines = [line for line in result.outlines if "PASSED" in line]
    return {bed: {line.split("]")[0] for line in lines if f"[{bed}-" in line} for bed in ("one", "two")}


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


def test_testbeds_of_one_cell_each_go_to_two_workers(scheduling):
    first, second = started(scheduling, [NODES[0], NODES[3]])
    assert (first.given, second.given) == ([0], [1])
    assert (first.shutting_down, second.shutting_down) == (True, True)


def test_testbeds_are_apart_unless_one_that_is_measured_joins_them(scheduling):
    first, second = started(scheduling, [*NODES, "test_a.py::test[bridge-smtp-c1-1k-ipv6]", "test_b.py::test"])
    assert (first.given, second.given) == ([0, 1, 2, 3, 4, 5, 6], [7])


def test_a_cell_is_known_among_other_parameters_and_nothing_else_is_a_cell():
    pattern = cell_pattern(["one", "one.b"])
    params = (
        "x-one.b-smtp-c1-1k-ipv6-tunnel-y", "one-http-library-c10-2k-ipv4-twin", "one-tcp-c4-128k-window64k-down-ipv6",
        "one-udp-c1-1400-1.5gbit-ipv6-isatap", "one-tcp-c1-1k-down-vs_offload_on-ipv6-tunnel-offload_off-x",
        "one-smtp", "one",
    )  # fmt: skip
    found = [pattern.search(f"a.py::t[{each}]") for each in params]
    assert [match and match.groups() for match in found] == [
        ("one.b", "smtp", "1", "1k", "", None, "ipv6-tunnel"),
        ("one", "http", "10", "2k", "", None, "ipv4-twin"),
        ("one", "tcp", "4", "128k", "-window64k-down", None, "ipv6"),
        ("one", "udp", "1", "1400", "-1.5gbit", None, "ipv6-isatap"),
        ("one", "tcp", "1", "1k", "-down", "offload_on", "ipv6-tunnel-offload_off"),
        None,
        None,
    ]


@given(st.from_regex(MODEL_NAME_PATTERN, fullmatch=True))
def test_a_cell_is_known_whatever_the_name_of_its_model(name):
    pattern = cell_pattern(["one"])
    held = pattern.search(f"a.py::t[one-game-c1-1-{name}-ipv6-tunnel]")
    assert held
    assert held.groups() == ("one", "game", "1", "1", f"-{name}", None, "ipv6-tunnel")
    compared = pattern.search(f"a.py::t[one-game-c1-1-vs_game_{name}-ipv6-game_{name}-twin]")
    assert compared
    assert compared.groups() == ("one", "game", "1", "1", "", f"game_{name}", f"ipv6-game_{name}-twin")
    assert Arm.parse(f"ipv6-game_{name}-twin").level == f"game_{name}"


workloads = st.builds(
    Workload,
    testbed=st.just("one"),
    protocol=st.sampled_from(sorted(PROTOCOLS)),
    client=st.sampled_from(CLIENTS),
    connections=st.integers(1, 5000),
    payload_bytes=st.integers(1, 2**31),
    rate_per_s=st.just(0.0) | st.floats(min_value=0, exclude_min=True, allow_infinity=False),
    workers=st.integers(1, 64),
)


@given(workloads, st.sampled_from(["ipv4", "ipv6", "ipv6-tunnel", "ipv4-twin"]))
def test_every_cell_is_known_whatever_its_arrivals_and_workers(workload, arm):
    match = cell_pattern(["one"]).search(f"a.py::t[{Cell(workload, Arm.parse(arm))}]")
    assert match
    assert match.groups() == (
        "one", workload.protocol, str(workload.connections), bytes_text(workload.payload_bytes), "", None, arm,
    )  # fmt: skip


def test_a_crash_after_the_other_worker_is_done_loses_only_its_item(two_testbeds):
    add_hook(two_testbeds, """
        import os, pathlib, time

        DONE = pathlib.Path(__file__).with_name("done")

        def pytest_sessionfinish(session):
            if hasattr(session.config, "workerinput"):
                DONE.touch()

        def pytest_runtest_call(item):
            if "[two-smtp-c1-" in item.name:
                while not DONE.exists():
                    time.sleep(0.05)
                time.sleep(0.5)  # by then the controller has heard it
                os._exit(9)
    """)  # fmt: skip
    result = run(two_testbeds, "--testbed=one,two", "-n", "2", testbed="")
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["*replacing crashed worker*", "*crashed while running*two-smtp-c1-1k-ipv6*"])


def test_a_worker_that_dies_before_it_is_ready_is_replaced(project):
    project.network()
    add_hook(project, """
        import os

        def pytest_configure(config):
            if getattr(config, "workerinput", {}).get("workerid") == "gw0":
                os._exit(9)
    """)  # fmt: skip
    run(project, "-n", "1").assert_outcomes(passed=2)


def test_workers_that_collected_different_tests_end_the_session(project):
    project.network()
    add_hook(project, """
        import os

        def pytest_collection_modifyitems(items):
            if os.environ.get("PYTEST_XDIST_WORKER") == "gw1":
                del items[1:]
    """)  # fmt: skip
    result = run(project, "-n", "2")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*Different tests were collected between gw? and gw?*"])


def test_auto_counts_the_testbeds_that_can_be_measured_side_by_side(two_testbeds):
    result = run(two_testbeds, "--testbed=one,two", "-n", "auto", "-v", testbed="")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["created: 2/2 workers", "*testbed one, server synthetic*", "*testbed two, *"])
    workers = workers_of(result)
    assert [len(found) for found in workers.values()] == [1, 1]
    assert workers["one"] != workers["two"]


@pytest.mark.parametrize(
    ("arguments", "ini", "count"),
    [
        (["--testbed=one,two,loopback"], "", 3),
        (["--testbed=lab,loopback"], "", 1),
        # The testbeds of the ini file hold for unit tests of the project too.
        ([], "ipperf_testbed = ['one', 'loopback']", 7),
        ([], "", 7),
    ],
)
def test_auto_means_as_many_workers_as_the_named_testbeds_need(two_testbeds, arguments, ini, count):
    two_testbeds.pytester.makepyprojecttoml(f"{STRICT}{ini}\n")
    assert auto_count(two_testbeds, *arguments) == count


def test_auto_leaves_the_number_to_the_environment_where_that_has_one(two_testbeds, monkeypatch):
    monkeypatch.setenv("PYTEST_XDIST_AUTO_NUM_WORKERS", "5")
    assert auto_count(two_testbeds, "--testbed=one,two") == 7


def test_auto_leaves_a_misspelt_testbed_to_the_usual_error(project):
    result = run(project, "-n", "auto", testbed="nowhere")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --testbed: testbed 'nowhere' does not exist*"])


def test_one_cell_on_each_of_two_testbeds_is_measured_by_two_workers(two_testbeds):
    result = run(two_testbeds, "--testbed=one,two", "--connections=1", "-n", "2", "-v", testbed="")
    result.assert_outcomes(passed=2)
    workers = workers_of(result)
    assert workers["one"] != workers["two"]


def test_the_plan_is_told_before_the_first_result_with_the_time_that_workers_save(two_testbeds):
    result = run(two_testbeds, "--testbed=one,two", "-n", "2", "-v", testbed="")
    result.stdout.fnmatch_lines([
        "ipperf: plan: 4 workloads, *, about *",
        "ipperf: 2 workers measure side by side: about *",
        "*PASSED*",
    ])  # fmt: skip
    alone = run(two_testbeds, "--testbed=one", "-n", "2", "-q", testbed="")
    alone.stdout.fnmatch_lines(["ipperf: plan: 2 workloads, *"])
    alone.stdout.no_fnmatch_line("*side by side*")


def test_the_arms_that_were_left_out_are_told_though_only_workers_know_them(two_testbeds):
    result = run(two_testbeds, "--testbed=one", "-n", "2", testbed="")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*= measurements =*", "left out: *tunnel*"])


def test_the_arms_that_were_left_out_are_told_where_nothing_is_measured(two_testbeds):
    result = run(two_testbeds, "--testbed=one", "--transport=tunnel", "-n", "2", testbed="")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    assert len([line for line in result.outlines if line.startswith("ipperf: left out: ")]) == 1


def test_verdicts_and_exit_status_come_through_from_the_workers(project):
    project.network(slower=0.09, noise=0.2)
    result = run(project, "-n", "2")
    result.stdout.fnmatch_lines(["INCONCLUSIVE *", "*no cell was decided*", "*2 inconclusive in *"])
    assert result.ret == 10
    project.network()
    run(project, "--lf", "-n", "2").assert_outcomes(passed=2)


def test_a_crashed_worker_loses_only_its_item(project):
    project.network()
    add_hook(project, "def pytest_runtest_call(item):\n    import os\n    'c1-' in item.name and os._exit(9)\n")
    result = run(project, "-n", "1")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*worker 'gw0' crashed while running*c1-1k-ipv6*"])


@pytest.mark.parametrize("mode", [[], ["--arrivals=200/s", "--ipperf-workers=2"]], ids=["closed", "open"])
def test_dist_each_is_refused_where_something_is_measured(project, mode):
    result = run(project, "-n", "2", "--dist=each", *mode)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --dist=each would measure on one testbed from several workers at once*"])
    assert not project.measured


@pytest.mark.parametrize(
    ("dist", "scheduler", "passed"),
    [
        ("each", "EachScheduling", 8),
        ("load", "LoadScheduling", 4),
        ("loadfile", "LoadFileScheduling", 4),
        ("worksteal", "WorkStealingScheduling", 4),
    ],
)
def test_where_nothing_is_measured_xdist_distributes_as_ever(pytester, dist, scheduler, passed):
    pytester.makepyfile("import pytest\n@pytest.mark.parametrize('n', range(4))\ndef test_plain(n): pass")
    result = pytester.runpytest_subprocess("-n", "2", f"--dist={dist}", "-v", "-p", "no:randomly", timeout=200)
    result.assert_outcomes(passed=passed)
    result.stdout.fnmatch_lines([f"scheduling tests via {scheduler}"])
    lines = [line for line in result.outlines if "PASSED" in line]
    assert len({line.split("]")[0] for line in lines}) == (1 if dist == "loadfile" else 2)


@pytest.mark.evidence
def test_where_nothing_is_measured_a_worker_that_dies_early_is_replaced_too(project):
    project.network()
    project.pytester.makepyfile(test_plain="def test_a(): pass\ndef test_b(): pass")
    add_hook(project, """
        import os

        def pytest_configure(config):
            if getattr(config, "workerinput", {}).get("workerid") == "gw0":
                os._exit(9)

        def pytest_runtest_call(item):
            if item.name == "test_a":
                os._exit(9)
    """)  # fmt: skip
    run(project, "-n", "2", "test_plain.py").assert_outcomes(passed=1, failed=1)


def test_beside_measurements_plain_tests_are_spread_by_file(project):
    project.network()
    for number in range(3):
        project.pytester.makepyfile(**{f"test_{number}": "def test_a(): pass\ndef test_b(): pass"})
    result = run(project, "-n", "2", "-v")
    result.assert_outcomes(passed=8)
    for number in range(3):
        lines = [line for line in result.outlines if f"test_{number}.py" in line and "PASSED" in line]
        assert len({line.split("]")[0] for line in lines}) == 1
