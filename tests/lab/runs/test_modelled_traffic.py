"""Models of a workload: those that it measures, and those of its load."""

import pytest

from pytest_ipperf.core.design.cell import Arm, Workload
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.factor import levels_from_text
from pytest_ipperf.lab.runs.modelled_traffic import check_load_level, load_model_of, model_names
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.traffic_models import shipped_models

PLAIN = [Arm(4, "native"), Arm(6, "native")]


def work(protocol, text):
    return Workload(
        testbed="lab", protocol=protocol, client="lean", connections=1, payload_bytes=64,
        levels=levels_from_text(PROTOCOLS[protocol].factors, text),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("protocol", "text", "names", "load"),
    [
        ("rtt", "udp", (), None),
        ("rtt", "udp-loadtcp.up", (), None),
        ("rtt", "udp-loadquake3-lg20", ("quake3",), "quake3"),
        ("voip", "g711.1-loadtcp.down", ("g711.1",), None),
        ("voip", "g711.1-loadg729.2", ("g711.1", "g729.2"), "g729.2"),
        ("voip", "g711.1-loadg711.1", ("g711.1",), "g711.1"),
    ],
)
def test_names_are_those_of_the_measured_model_and_of_the_load(protocol, text, names, load):
    models, job = shipped_models(), work(protocol, text)
    assert model_names(job, PLAIN) == names
    assert load_model_of(job, models) is (models[load] if load else None)


def test_arms_with_different_models_or_loads_have_those_of_all():
    arms = [Arm(4, "native", level=level) for level in ("load_none", "load_tcp.up", "load_quake3")]
    assert model_names(work("voip", "g711.1"), arms) == ("g711.1", "quake3")
    arms = [Arm(6, "native", level=level) for level in ("codec_g711.1", "codec_g729.2")]
    compared = [each for each in work("voip", "g711.1-loadquake3").levels if each.name != "codec"]
    job = Workload(
        testbed="lab", protocol="voip", client="lean", connections=1, payload_bytes=1, levels=tuple(compared)
    )
    assert model_names(job, arms) == ("g711.1", "quake3", "g729.2")


def test_a_load_that_does_not_exist_is_refused_with_those_that_do():
    check_load_level("tcp.up", shipped_models())
    check_load_level("quake3", shipped_models())
    with pytest.raises(UsageError, match=r"load 'tcp\.upp' does not exist; there are none, tcp\.up, tcp\.down, and the "
                       r"traffic models constant, .*; did you mean 'tcp\.up'\?"):  # fmt: skip
        check_load_level("tcp.upp", shipped_models())
    with pytest.raises(UsageError, match="load 'quake4' does not exist"):
        load_model_of(work("rtt", "udp-loadquake4"), shipped_models())
