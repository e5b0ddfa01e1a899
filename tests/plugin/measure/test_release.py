"""A workload's samples are released after its last item; an item that asks again gets them from the records."""

from tests.support.sessions.xdist_workers import add_hook

IMPORTS = """
    import gc
    import pytest
    from pytest_ipperf.core.records.record import Record
    from pytest_ipperf.plugin.session.stash import SESSION
"""
AGAIN = """
    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(session):
        result = yield
        kept = session.config.stash[SESSION].results
        print("kept after the loop:", sorted(map(str, kept)))
        reports = session.config.pluginmanager.get_plugin("terminalreporter").stats.get("passed", [])
        print("records as text:", len(reports), sum(hasattr(report, "ipperf_record") for report in reports))
        gc.collect()
        print("records as objects:", sum(type(each) is Record for each in gc.get_objects()))
        for item in session.items:
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        return result
"""


def test_run_again_after_release(project):
    project.network(slower=0.04)
    add_hook(project, IMPORTS)
    add_hook(project, AGAIN)

    outcome = project.run("-s")

    outcome.assert_outcomes(passed=4)
    outcome.stdout.fnmatch_lines(["*kept after the loop: []", "records as text: 2 0", "records as objects: 0"])
    workloads = [line.partition(" ")[0] for line in project.measured]
    assert len(workloads) == len(set(workloads)) == 2
    records = [event for event in project.kept() if event["event"] == "record"]
    assert len(records) == 4
    facts = [{name: fact for name, fact in each.items() if name not in ("at", "crc32")} for each in records]
    assert facts[:2] == facts[2:]


def test_workload_with_trouble_is_kept(project):
    project.network(invalid="another path")
    add_hook(project, IMPORTS)
    add_hook(project, AGAIN)

    outcome = project.run("-s")

    outcome.assert_outcomes(errors=4)
    assert len(project.measured) == 2
