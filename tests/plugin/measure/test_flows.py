"""Flows in pytest: ids, levels, metrics and margins of `tcp`, `udp` and `rtt`, and a session on a lab."""

import json

import pytest

from pytest_ipperf.lab.netns.namespaces import unusable
from pytest_ipperf.plugin.options.declarations import FACTORS
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.store import read_session

SUITE = """
import pytest

@pytest.mark.udp
@pytest.mark.levels(rate=["2mbit", "30mbit"])
def test_throughput(measured, margin):
    assert measured.slowdown <= margin

@pytest.mark.udp
@pytest.mark.metric("loss")
@pytest.mark.levels(rate=["2mbit", "30mbit"])
def test_loss(measured, margin, factors):
    assert measured.metric == "loss"
    assert [level.name for level in factors] == ["rate"]
    assert measured.increase <= margin

@pytest.mark.tcp
@pytest.mark.levels(window=["auto", "64k"])
def test_stream(measured, margin):
    assert measured.slowdown <= margin

@pytest.mark.rtt
def test_echo(measured, margin):
    assert measured.slowdown <= margin
"""


def ids(pytester, *arguments):
    result = pytester.runpytest_inprocess("--collect-only", "-q", "--testbed=loopback", "-p", "no:randomly", *arguments)
    return [line.partition("::")[2] for line in result.outlines if "::" in line]


@pytest.fixture
def suite(pytester):
    pytester.makepyfile(SUITE)
    return pytester


def test_ids_name_what_does_not_go_without_saying(suite):
    assert ids(suite) == [
        "test_throughput[loopback-udp-c1-1400-2mbit-ipv6]",
        "test_loss[loopback-udp-c1-1400-2mbit-ipv6]",
        "test_throughput[loopback-udp-c1-1400-30mbit-ipv6]",
        "test_loss[loopback-udp-c1-1400-30mbit-ipv6]",
        "test_stream[loopback-tcp-c1-128k-default-ipv6]",
        "test_stream[loopback-tcp-c1-128k-window64k-ipv6]",
        "test_echo[loopback-rtt-c1-64-udp-ipv6]",
    ]


@pytest.mark.parametrize("protocol", ["tcp", "udp", "rtt"])
def test_a_protocol_alone_has_levels_of_its_own(pytester, protocol):
    pytester.makepyfile(f"import pytest\n@pytest.mark.{protocol}\ndef test_it(measured): assert measured")
    (found,) = ids(pytester)
    assert found.startswith(f"test_it[loopback-{protocol}-c1-")


def test_a_margin_of_the_command_line_that_a_metric_cannot_have_leaves_its_cells_out(suite):
    assert ids(suite, "--margin=0.5pp") == [each for each in ids(suite) if "test_loss" in each]
    result = suite.runpytest_inprocess("--collect-only", "--testbed=loopback", "--margin=10%,0.5ms")
    result.stdout.fnmatch_lines(
        ["ipperf: left out: --margin: margin '10%,0.5ms' has a floor in time, and loss is a share*"]
    )
    assert len(ids(suite, "--margin=10%")) == 7


def test_factors_of_two_protocols_have_names_of_their_own():
    factors = {factor for name in PROTOCOLS for factor in PROTOCOLS[name].factors}
    assert len(factors) == len({factor.name for factor in factors}) == len(FACTORS)


def test_options_replace_the_levels_of_the_factor_that_they_are_called_after(suite):
    assert ids(suite, "-m", "udp", "--rate=1.5gbit,flood", "-k", "loss") == [
        "test_loss[loopback-udp-c1-1400-1.5gbit-ipv6]",
        "test_loss[loopback-udp-c1-1400-default-ipv6]",
    ]
    assert ids(suite, "-m", "tcp", "--direction=up,down", "--window=auto", "--connections=2") == [
        "test_stream[loopback-tcp-c2-128k-default-ipv6]",
        "test_stream[loopback-tcp-c2-128k-down-ipv6]",
    ]
    assert ids(suite, "-m", "rtt", "--probe=icmp", "--waiting=wire,application", "--payload=65499") == [
        "test_echo[loopback-rtt-c1-65499-icmp-wire-ipv6]",
        "test_echo[loopback-rtt-c1-65499-icmp-application-ipv6]",
    ]


def test_what_an_option_asks_of_a_protocol_that_cannot_have_it_is_left_out_in_words(suite):
    result = suite.runpytest_inprocess("--collect-only", "--testbed=loopback", "--connections=1,10", "-m", "udp or tcp")
    result.stdout.fnmatch_lines(
        [
            "ipperf: left out: 10 connections make no sense for udp, which sends one stream; take 1",
        ]
    )
    assert any("tcp-c10" in line for line in ids(suite, "--connections=1,10"))


@pytest.mark.parametrize(
    ("markers", "sentence"),
    [
        ("metric('jitter')", "marker metric names 'jitter'; tcp has one of throughput, transfer_time_ratio, *"),
        ("metric()", "marker metric names nothing; tcp has one of throughput, *"),
        ("levels(windows=['64k'])", "marker levels of tcp takes only the keywords connections, payload, window, *"),
        ("levels(window='64k')", "levels window='64k' are not a list such as window=[[]'auto']"),
        ("levels(window=['64q'])", "size '64q' is not a whole number of bytes such as 512, 1k or 2m"),
        ("levels(connections=[1000])", "1000 parallel streams are more than tcp supports; take 256 at most"),
    ],
)
def test_a_marker_that_makes_no_sense_is_an_error_in_a_sentence(pytester, markers, sentence):
    pytester.makepyfile(
        f"import pytest\n@pytest.mark.tcp\n@pytest.mark.{markers}\ndef test_it(measured): assert measured"
    )
    result = pytester.runpytest_inprocess("--collect-only", "--testbed=loopback")
    result.stdout.fnmatch_lines([f"*::test_it: {sentence}"])


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        (
            "--rate=fast",
            "rate 'fast' is not a number of bits a second such as 512kbit, 100mbit or 1gbit",
        ),
        ("--direction=left", "direction 'left' does not exist; there are up, down"),
    ],
)
def test_an_option_that_makes_no_sense_ends_the_session_in_a_sentence(suite, option, sentence):
    result = suite.runpytest_inprocess("--testbed=loopback", option)
    assert f"ERROR: {option.partition('=')[0]}: {sentence}" in result.errlines
    assert result.ret == pytest.ExitCode.USAGE_ERROR


@pytest.mark.evidence
def test_a_session_on_a_lab_measures_a_workload_once_for_all_metrics_that_are_asked_of_it(suite):
    if why := unusable():
        pytest.skip(f"the lab cannot be built here: {why}")
    result = suite.runpytest_subprocess(
        "--testbed=lab.20mbit", "--design=smoke", "--transport=native", "--ipperf-server=embedded", "-p", "no:randomly",
    )  # fmt: skip
    result.assert_outcomes(skipped=0)
    (folder,) = suite.path.glob(".ipperf/runs/*")
    kept = read_session(folder)
    assert sorted(kept.workloads) == [
        "lab.20mbit-rtt-c1-64-udp", "lab.20mbit-tcp-c1-128k", "lab.20mbit-tcp-c1-128k-window64k",
        "lab.20mbit-udp-c1-1400-2mbit", "lab.20mbit-udp-c1-1400-30mbit",
    ]  # fmt: skip
    for found in kept.workloads.values():
        assert (len(found.runs), found.whole) == (8, True)
    for run in kept.workloads["lab.20mbit-udp-c1-1400-30mbit"].runs:
        assert run["values"]["loss"] > 0.2
        assert run["facts"]["sent"] == run["attempted"]
    lines = (folder / "main.jsonl").read_text().splitlines()
    records = [each for each in map(json.loads, lines) if each["event"] == "record"]
    # One arm beside the reference: one record for each test and level.
    assert [each["metric"] for each in records] == ["throughput", "loss"] * 2 + ["throughput"] * 2 + ["rtt"]
    result.stdout.fnmatch_lines(["*throughput*", "*loss*"])
