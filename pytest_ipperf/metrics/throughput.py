"""Throughput: payload that reached the receiver in a second, without headers and duplicates.

TCP: the bytes that all streams together received in the run's window (goodput, RFC 6349). UDP: the share of the
datagrams that arrived, times the payload sent, over the time. That time is the sender's whole schedule, kept or not,
or, if a queue on the path drained after it, the time from the first arrival to the last plus one gap between datagrams.
Modelled traffic: first copies of both directions together, over the run or the time of their arrivals, if longer.
"""

from pytest_ipperf.core.design.metric import Metric
from pytest_ipperf.core.measurement.run_data import RunData
from pytest_ipperf.metrics.base import Measure


def _value(outcome: RunData) -> float | None:
    facts = outcome.facts
    if "payload_bytes" in facts:
        return 8 * facts["payload_bytes"] / max(facts["seconds"], facts.get("received_seconds", 0.0)) or None
    if not facts["unique"]:
        return None
    sent_bits, gap_s = facts["sent_bit_s"] * facts["seconds"], facts["seconds"] / (facts["sent"] + facts["missed"])
    return sent_bits * facts["unique"] / facts["sent"] / max(facts["seconds"], facts["received_seconds"] + gap_s)


measure = Measure(
    metric=Metric(
        name="throughput",
        title="throughput at the receiver",
        unit="bit/s",
        direction="higher_is_better",
        scale="ratio",
        location="mean",
        resolution=0.0,  # of a paced stream without loss it is arithmetic: every run has the rate that was offered
        formula="received payload bits / time; UDP: first copies, time of sending or of arriving if that is longer",
        source="RFC 6349, section 4.1 (TCP); RFC 2285, section 3.6.1 (UDP, forwarding rate); paper 001, Figs 4, 5, 7",
        margin="5%+headers",
    ),
    value=_value,
    lacking="nothing arrived",
)
