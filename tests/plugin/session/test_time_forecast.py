"""Time forecast before there are data: short warm-ups, background traffic, and fresh epochs."""

from dataclasses import replace

import pytest

from pytest_ipperf.core.design.cell import Arm, Workload
from pytest_ipperf.core.design.design import DESIGNS
from pytest_ipperf.core.design.plan import confirming_plan, plan_for
from pytest_ipperf.core.portable.factor import levels_from_text
from pytest_ipperf.core.portable.units import seconds_text
from pytest_ipperf.core.portable.workload_kind import LEAN
from pytest_ipperf.plugin.session.time_forecast import estimated_s
from pytest_ipperf.protocols import PROTOCOLS, application

QUICK = DESIGNS["quick"]
FOUR, SIX = Arm(4, "native"), Arm(6, "native")
SMTP = Workload(testbed="loopback", protocol="smtp", client=LEAN, connections=1, payload_bytes=1024)


def about_s(workload, design=QUICK, arms=(FOUR, SIX), rate_bit_s=0.0):
    return estimated_s(plan_for(workload, arms, design, 1), design, rate_bit_s, reboot=False)


def of_protocol(protocol, levels="", against=""):
    """Return a workload of one connection, at these levels of the protocol's factors."""
    factors = [each for each in PROTOCOLS[protocol].factors if each.name != against.partition("_")[0]]
    return replace(SMTP, protocol=protocol, payload_bytes=64, levels=levels_from_text(factors, levels), against=against)


def test_a_warm_up_counts_with_the_connections_that_it_has():
    full = replace(QUICK, warmup_connections=QUICK.run_connections)
    spared = QUICK.epochs * 2 * (300 - 60)
    assert about_s(SMTP, full) - about_s(SMTP) == pytest.approx(spared * application("smtp").typical_s)
    smoke = DESIGNS["smoke"]
    assert about_s(SMTP, smoke) == about_s(SMTP, replace(smoke, warmup_connections=1000))


def test_a_warm_up_of_a_flow_counts_with_the_seconds_that_it_has():
    design = replace(QUICK, run_s=25.0)
    longest_s = PROTOCOLS["file_transfer"].longest_warmup_s
    assert 1 < longest_s < 25
    found = about_s(of_protocol("file_transfer"), design) - about_s(of_protocol("file_transfer"))
    counted, warmups = 6 * 2 * 2, 6 * 2
    assert found == pytest.approx(counted * (25 - 1) + warmups * (longest_s - 1))


@pytest.mark.parametrize("rate_bit_s", [0.0, 2e7])
def test_background_traffic_adds_its_lead_its_tail_and_the_wait_for_silence(rate_bit_s):
    runs, added_s = 6 * 2 * 3, 2.0 + 1.0 + 2 * 0.25
    idle, loaded = (about_s(of_protocol("rtt", text), rate_bit_s=rate_bit_s) for text in ("", "loadtcp.up"))
    assert loaded - idle == pytest.approx(runs * added_s)


def test_it_is_added_to_the_arms_that_have_it():
    compared = of_protocol("rtt", against="load_none")
    both = about_s(compared, arms=[replace(SIX, level=level) for level in ("load_none", "load_tcp.up")])
    neither = about_s(of_protocol("rtt"))
    assert both - neither == pytest.approx(6 * 3 * 3.5)


def test_the_header_has_the_estimate_and_that_of_fresh_epochs_with_its_own_share_of_warm_ups(project):
    project.network()
    result = project.ask("--collect-only", "-q", "--design=quick", "--connections=1", "--ipperf-confirm=yes")
    plan = plan_for(SMTP, [FOUR, SIX], QUICK, 1)
    fresh = confirming_plan(SMTP, plan.arms, QUICK, 1)
    first, more = (estimated_s(each, QUICK, 0.0, reboot=False) for each in (plan, fresh))
    result.stdout.fnmatch_lines([
        f"ipperf: plan: 1 workload, *, 36 runs, about {seconds_text(first)}",
        f"ipperf: up to {seconds_text(more)} more if cells exceed their margins: *",
    ])  # fmt: skip
