"""Facts of a run under the keys of its records."""

from __future__ import annotations

from pytest_ipperf.agent.flows.spec import FlowReport, SenderClock
from pytest_ipperf.lab.runs.proof import flow_proof


def test_the_senders_clock_is_a_part_of_the_detail_of_a_flow():
    near = FlowReport(
        samples=b"x",
        detail={"sent_by": "send"},
        sender_clock=SenderClock(began_ns=7, clock_marks=[(1, 0.5, 0.01)]),
    )
    proof = flow_proof(near, FlowReport(detail={"received_by": "recvmsg"}), 1, {})
    assert proof["detail"] == {"sent_by": "send", "began_ns": 7, "clock_marks": [(1, 0.5, 0.01)]}
    assert proof["far"]["detail"] == {"received_by": "recvmsg"}
    assert not {"sender_clock", "samples"} & ({*proof} | {*proof["far"]})


def test_a_flow_without_a_clock_has_only_its_detail():
    proof = flow_proof(FlowReport(detail={"answered": 3}), FlowReport(), 1, {})
    assert (proof["detail"], proof["far"]["detail"]) == ({"answered": 3}, {})
    assert "sender_clock" not in proof
