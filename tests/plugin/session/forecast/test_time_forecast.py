"""Time forecast before there are data: short warm-ups, background traffic, and fresh epochs."""

from dataclasses import replace

import pytest

from pytest_ipperf.core.design.cell import Arm, Workload
from pytest_ipperf.core.design.design import DESIGNS
from pytest_ipperf.core.design.plan import confirming_plan, plan_for
from pytest_ipperf.core.portable.factor import levels_from_text
from pytest_ipperf.core.portable.units import seconds_text
from pytest_ipperf.core.portable.workload_kind import LEAN
from pytest_ipperf.lab.inventory.model import Links
from pytest_ipperf.lab.netns.veth import QUEUE_BYTES
from pytest_ipperf.plugin.session.forecast.time_forecast import estimated_s
from pytest_ipperf.protocols import PROTOCOLS, application
from pytest_ipperf.traffic_models import shipped_models

QUICK = DESIGNS["quick"]
NO_LIMIT = Links()
FOUR, SIX = Arm(4, "native"), Arm(6, "native")
SMTP = Workload(testbed="loopback", protocol="smtp", client=LEAN, connections=1, payload_bytes=1024)


def about_s(workload, design=QUICK, arms=(FOUR, SIX), links=NO_LIMIT):
    return estimated_s(plan_for(workload, arms, design, 1), design, links, shipped_models(), reboot=False)


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


def added_s(load, links):
    """Return the seconds that a load adds to each of the runs."""
    idle, loaded = (about_s(of_protocol("rtt", text), links=links) for text in ("udp", f"udp-load{load}"))
    return (loaded - idle) / (6 * 2 * 3)


@pytest.mark.parametrize("links", [NO_LIMIT, Links(rate_bit_s=2e7)])
@pytest.mark.parametrize("load", ["tcp.up", "g711.1-lg30"])
def test_background_traffic_adds_its_lead_its_tail_and_the_wait_for_silence(load, links):
    assert added_s(load, links) == pytest.approx(2.0 + 1.0 + 2 * 0.25)


def test_the_queues_that_it_fills_at_a_router_drain_after_it():
    loaded_s = 2.0 + QUICK.warmup_s + QUICK.run_s + 1.0
    assert added_s("tcp.up", Links(rate_bit_s=2e6, at_router=True)) == pytest.approx(3.5 + 0.1 * loaded_s)
    # Thirty calls offer 30 x 100 x 8 x (92 bytes and 86 of headers and frame) bit/s in each direction.
    (four_s, six_s) = (loaded_s * 2400 * 10 * (92 + 38 + each) / 2e6 - loaded_s for each in (28, 48))
    found = added_s("g711.1-lg30", Links(rate_bit_s=2e6, at_router=True))
    assert found == pytest.approx(3.5 + (four_s + six_s) / 2, rel=0.02)
    assert added_s("g711.1-lg5", Links(rate_bit_s=2e6, at_router=True)) == pytest.approx(3.5)
    assert added_s("g711.1-lg900", Links(rate_bit_s=2e6, at_router=True)) == pytest.approx(3.5 + 8 * QUEUE_BYTES / 2e6)


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
    first, more = (estimated_s(each, QUICK, NO_LIMIT, shipped_models(), reboot=False) for each in (plan, fresh))
    result.stdout.fnmatch_lines([
        f"ipperf: plan: 1 workload, *, 36 runs, about {seconds_text(first)}",
        f"ipperf: up to {seconds_text(more)} more if cells exceed their margins: *",
    ])  # fmt: skip
