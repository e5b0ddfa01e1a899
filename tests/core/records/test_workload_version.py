"""Version of a workload: what begins a new history, and what does not."""

from dataclasses import replace

import pytest

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.portable.traffic.distribution import Distribution, Variable
from pytest_ipperf.core.portable.traffic.model import RtpFormat, Speech, Stream, TrafficModel
from pytest_ipperf.core.records.workload_version import models_digest, workload_version
from pytest_ipperf.traffic_models import shipped_models

STREAM = Stream(
    direction="up",
    interval_s=Variable.of(0.02),
    size_bytes=Variable((Distribution(name="normal", parameters={"mean": 92, "sd": 12}),)),
    talk_s=Variable.of(1),
    pause_s=Variable.of(2),
)
MODEL = TrafficModel(
    name="opus", title="Opus", source="here", streams=(STREAM,), rtp=RtpFormat(payload_type=96, clock_hz=48000),
    speech=Speech(ie=10, bpl=20, delay_s=0.02), duration_s=9, seed="5",
)  # fmt: skip


def of_parts(name, **changed):
    """Return a size with this distribution."""
    return Variable((Distribution(**{"name": name, "parameters": {"mean": 92, "sd": 12}, **changed}),))


def with_stream(**changed):
    return replace(MODEL, streams=(replace(STREAM, **changed),))


OTHERS = {
    "interval": with_stream(interval_s=Variable.of(0.03)),
    "mean size": with_stream(size_bytes=of_parts("normal", parameters={"mean": 93, "sd": 12})),
    "distribution": with_stream(size_bytes=of_parts("uniform", parameters={"low": 92, "high": 12 + 92})),
    "name of a distribution": with_stream(size_bytes=of_parts("weibull", parameters={"scale": 92, "shape": 12})),
    "the same parameters of another": with_stream(size_bytes=of_parts("gamma", parameters={"scale": 92, "shape": 12})),
    "least": with_stream(size_bytes=of_parts("normal", least=30)),
    "payload": with_stream(size_bytes=None),
    "direction": with_stream(direction="down"),
    "talk": with_stream(talk_s=Variable.of(1.5)),
    "pause": with_stream(pause_s=Variable.of(3)),
    "no spurts": with_stream(talk_s=None, pause_s=None),
    "one more stream": replace(MODEL, streams=(STREAM, STREAM)),
    "clock": replace(MODEL, rtp=RtpFormat(payload_type=96, clock_hz=8000)),
    "no RTP": replace(MODEL, rtp=None),
    "rating": replace(MODEL, speech=Speech(ie=11, bpl=20, delay_s=0.02)),
    "duration": replace(MODEL, duration_s=8),
    "seed": replace(MODEL, seed="6"),
    "conversation": replace(MODEL, streams=(replace(STREAM, talk_s=None, pause_s=None),), conversation=True),
}


def test_every_change_of_a_model_gives_another_digest():
    found = {what: models_digest([model]) for what, model in {"": MODEL, **OTHERS}.items()}
    assert len(set(found.values())) == len(found), found


def test_its_names_and_the_way_a_number_is_written_do_not():
    assert models_digest([replace(MODEL, name="a", title="b", source="c")]) == models_digest([MODEL])
    assert models_digest([replace(MODEL, duration_s=9.0)]) == models_digest([MODEL])


def test_models_of_two_arms_are_not_each_others():
    one, other = MODEL, OTHERS["seed"]
    assert len({models_digest(each) for each in ([one], [other], [one, other], [other, one])}) == 4


def test_every_model_of_the_package_has_a_digest_of_its_own():
    found = {name: models_digest([model]) for name, model in shipped_models().items()}
    assert len(set(found.values())) == len(found)


@pytest.mark.parametrize(
    ("models", "judged", "links", "text"),
    [
        ("", 1, 1, "1-apache-ipv4-300x-10s-1f0c5d"),
        ("", 2, 1, "1-apache-ipv4-300x-10s-1f0c5d-judged2"),
        ("", 1, 2, "1-apache-ipv4-300x-10s-1f0c5d-links2"),
        ("3ac2f00b1122", 1, 1, "1-apache-ipv4-300x-10s-1f0c5d-model3ac2f0"),
        ("3ac2f00b1122", 2, 2, "1-apache-ipv4-300x-10s-1f0c5d-model3ac2f0-judged2-links2"),
    ],
)
def test_the_version_has_the_digest_of_models_and_later_versions_where_there_are_any(models, judged, links, text):
    found = workload_version(
        protocol=1, server="apache", reference=Arm(4, "native"), size="300x", deadline_s=10, state="1f0c5d22aa",
        models=models, judged=judged, links=links,
    )  # fmt: skip
    assert found == text
