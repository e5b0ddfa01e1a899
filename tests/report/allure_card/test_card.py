"""The Allure card of a cell: its title, its figures side by side, its plot, and its values as a file."""

import csv
import dataclasses
import html
import io
import math
import re
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.design.cell import Arm, Cell, Workload
from pytest_ipperf.core.inference.claim import Slowdown
from pytest_ipperf.core.inference.effect import Effect
from pytest_ipperf.core.records.first_estimate import FirstEstimate
from pytest_ipperf.core.stats.interval import Interval
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.report.allure_card import (
    description,
    distribution_plot,
    factor_texts,
    plot,
    title,
    values_csv,
    without_answer,
)
from pytest_ipperf.report.allure_card.plot import draw
from pytest_ipperf.report.workload_kinds import tables

ARMS = [Arm(4, "native", twin=True), Arm(6, "native"), Arm(6, "tunnel"), Arm(6, "isatap"), Arm(6, "isatap", twin=True)]


def cell(protocol="smtp", arm="ipv6-tunnel", **change):
    factors = PROTOCOLS[protocol].factors
    asked = change.pop("levels", {})
    levels = tuple(factor.level(asked.get(factor.name, _usual(factor))) for factor in factors)
    known = {"testbed": "lab", "client": "lean", "connections": 10, "payload_bytes": 1024, "levels": levels}
    return Cell(Workload(protocol=protocol, **{**known, **change}), Arm.parse(arm))


def _usual(factor):
    return factor.implicit if factor.implicit is not None else factor.levels[0]


@st.composite
def cells(draw):
    """Draw any possible cell of a session."""
    protocol = draw(st.sampled_from(list(PROTOCOLS)))
    levels = {
        factor.name: draw(st.sampled_from([_usual(factor), *factor.levels])) for factor in PROTOCOLS[protocol].factors
    }
    load = {} if levels else {
        "client": draw(st.sampled_from(["lean", "library"])),
        "rate_per_s": draw(st.sampled_from([0.0, 1.0, 11.0, 0.1])), "workers": draw(st.integers(1, 4)),
    }  # fmt: skip
    return cell(
        protocol, str(draw(st.sampled_from(ARMS))), levels=levels,
        testbed=draw(st.sampled_from(["lab", "lab.100mbit"])), connections=draw(st.integers(1, 2000)),
        payload_bytes=draw(st.integers(1, 100_000)), **load,
    )  # fmt: skip


# --- title and factors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expected", "metric", "shown"),
    [
        (cell(), "response_time", "SMTP, IPv6 tunnel, 10 connections, 1k"),
        (cell(connections=1, arm="ipv6"), "response_time", "SMTP, IPv6, 1 connection, 1k"),
        (cell(client="library", rate_per_s=200.0, workers=2), "response_time",
         "SMTP, IPv6 tunnel, 10 connections, 1k, client library, 200/s arrivals, 2 workers"),
        (cell("udp", connections=1, payload_bytes=1400, levels={"rate": 2e7}), "loss",
         "UDP loss, IPv6 tunnel, 1400 bytes, 20mbit"),
        (cell("tcp", "ipv4-twin", connections=4, levels={"window": 65536}), "throughput",
         "TCP throughput, IPv4 twin, 4 streams, 1k, window64k"),
        (cell("rtt", connections=1, payload_bytes=64), "rtt", "RTT, IPv6 tunnel, 64 bytes, udp"),
    ],
)  # fmt: skip
def test_titles_are_read_without_knowing_ids(expected, metric, shown):
    assert title(expected, metric) == shown
    assert title(expected, metric, testbed=True) == f"{shown}, on lab"


def test_the_arm_is_two_plain_factors():
    shown = cell("udp", "ipv6-isatap", connections=1, payload_bytes=1400, levels={"rate": 2e7})
    assert factor_texts(shown) == {
        "testbed": "lab", "protocol": "udp", "connections": "1", "payload": "1400", "rate": "20mbit", "ipver": "IPv6",
        "transport": "isatap",
    }  # fmt: skip
    assert factor_texts(cell(arm="ipv4-twin"))["transport"] == "native twin"
    assert factor_texts(cell(client="library", rate_per_s=0.5, workers=2)) == {
        "testbed": "lab", "protocol": "smtp", "connections": "10", "payload": "1k", "client": "library",
        "arrivals": "0.5/s", "workers": "2", "ipver": "IPv6", "transport": "tunnel",
    }  # fmt: skip


@given(st.lists(cells(), min_size=2, max_size=2, unique_by=str))
def test_no_two_cells_have_the_same_factors(pair):
    """Allure 3 distinguishes tests of one case by their factors."""
    first, second = (sorted(factor_texts(each).items()) for each in pair)
    assert first != second


# --- description ------------------------------------------------------------------------------------------------------


def _texts(page, pattern):
    return [html.unescape(re.sub("<[^>]*>", "", each)) for each in re.findall(pattern, page, re.DOTALL)]


def _cells(page):
    rows = re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL)
    return {name: figures for name, *figures in (_texts(row, r"<t[hd].*?</t[hd]>") for row in rows)}


def test_a_description_has_the_figures_of_the_terminals_table(made):
    result = made.study(epochs=6)[1]
    page = description(result)
    lines = [" ".join(line.split()) for line in tables([result])]
    shown = _cells(page)
    assert shown["verdict"] == ["", "within"]
    assert list(shown)[1:6] == ["mean of the runs", "change", "95 % interval", "margin", "verdict"]
    for name, (reference, test) in list(shown.items())[2:]:
        assert {f"{name} {text}" for text in (reference, test) if text} <= set(lines)
    first, second = shown["mean of the runs"]
    assert {f"IPv4 {first}", f"IPv6 isatap {second}"} <= set(lines)


def test_a_description_of_a_confirmed_cell_names_the_level_of_its_confirmation(factory):
    record = factory.application("smtp", 10, "ipv6", 1.3)
    first = FirstEstimate(
        estimate=25.0, lower_bound=20.0, upper_bound=30.0, epochs=6, alpha=0.05, level=0.04, sentence=""
    )
    rule = "Verdict: one-sided 95 % bounds against the margin (design nightly)"
    assert f"<li>{rule}.</li>" in description(record)
    confirmed = description(dataclasses.replace(record, confirms=first))
    assert f"<li>{rule}; in fresh epochs an excess is confirmed at 96 %.</li>" in confirmed


def test_a_description_says_verdict_and_sentence_first_and_loads_nothing(made):
    shown = dataclasses.replace(
        made.study(epochs=6)[0], verdict="exceeds", sentence="IPv6 is slower than IPv4 by <b>4</b> % & more"
    )
    page = description(shown, plot(shown))
    assert page.startswith("<p><b>Exceeds.</b> IPv6 is slower than IPv4 by &lt;b&gt;4&lt;/b&gt; % &amp; more.</p>")
    assert re.findall(r"<img src=\"(.{22})", page) == ["data:image/png;base64,"]
    assert not re.findall(r"(?:src|href|url)\s*[=(]\s*[\"']?(?!data:image/png)\w", page)
    assert "<svg" not in page


def test_what_was_not_judged_is_said_so(made):
    record = made.record("udp", "loss", "ipv6", [0.01], [0.0], levels={"rate": 2e7}, sentence="")
    page = description(record)
    assert page.startswith("<p><b>Measured, and nothing asked.</b></p>")
    assert "change of the means" in _cells(page)


@pytest.mark.parametrize(("design", "epochs"), [("paper", 1), ("smoke", 2)])
def test_a_design_that_never_judges_is_one_state_and_said_once(made, design, epochs):
    """The record is as the plugin makes it when a test asks a question, with the verdict `unjudged`."""
    record = made.record(
        "udp", "loss", "ipv6", [0.01] * epochs, [0.0] * epochs, levels={"rate": 2e7}, design=design, judges=False,
        alpha=0.05, verdict="unjudged", sentence="",
    )  # fmt: skip
    if epochs > 1:
        metric, arms = METRICS["loss"].metric, (Arm.parse("ipv6"), Arm.parse("ipv4"))
        change = Interval(estimate=0.01, low=0.005, high=0.015, confidence=0.95, df=1.0)
        effect = Effect(
            metric=metric, change=change, n_epochs=2, n_blocks=2, sd_epoch=0.001, sd_block=None, test=arms[0],
            reference=arms[1], test_value=0.01, reference_value=0.0,
        )  # fmt: skip
    effects = (effect,) if epochs > 1 else ()
    record = record.judged(Slowdown(effects=effects, judges=False, design=design) <= "1pp")
    assert (record.verdict, record.reasons) == ("unjudged", ("never_judges",))
    page = description(record)
    assert page.startswith(f"<p><b>Unjudged.</b> Design {design} never judges.</p>")
    assert _cells(page).get("verdict", ["", "unjudged"]) == ["", "unjudged"]


def test_the_distribution_and_the_course_are_drawn_as_far_as_they_are_known(made):
    record = made.record("udp", "throughput", "ipv6", [9e6] * 6, [9.1e6] * 6)
    arms = [side.arm for side in record.sides]
    times = {arm: [0.001 * (at + 1) for at in range(300)] + [math.inf] for arm in arms}
    began = {arm: [1795311000.0 + 10 * at for at in range(6)] for arm in arms}
    both = distribution_plot(record, times, began)
    assert both is not None
    assert both == distribution_plot(record, times, began)
    assert both.startswith(b"\x89PNG")
    assert len(both) < 40_000
    assert distribution_plot(record, {}, {}) is None
    # Of runs whose times are not all known, as in earlier records, there is no course.
    assert distribution_plot(record, {}, {arm: [0.0] * 6 for arm in arms}) is None
    assert distribution_plot(record, {}, {arm: [1795311000.0] for arm in arms}) is None
    assert distribution_plot(record, {arm: [math.inf] * 3 for arm in arms}, {}) is None
    assert distribution_plot(record, times, {}) not in (None, both)


def test_what_has_no_answer_is_said_with_its_reason():
    assert without_answer("Invalid", "the path <x> was not the path.") == (
        "<p><b>Invalid.</b> The path &lt;x&gt; was not the path.</p>"
    )


# --- plot -------------------------------------------------------------------------------------------------------------


def _size(png):
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", png[16:24])


def test_the_same_record_gives_the_same_plot(made):
    shown = made.study(epochs=6)[0]
    assert plot(shown) == plot(shown)
    assert _size(plot(shown)) == (902, 319)


@pytest.mark.parametrize(
    ("values", "change"),
    [
        ([0.0] * 12, {"estimate": 0.0, "low": 0.0, "high": 0.0}),
        ([0.002] * 11 + [math.inf], {"estimate": math.inf, "low": 0.1, "high": math.inf}),
        ([math.inf] * 12, {"estimate": None, "low": None, "high": None}),
        ([0.002] * 11, {}),
    ],
)
def test_a_plot_is_drawn_whatever_the_values(made, values, change):
    shown = made.study(epochs=6)[0]
    sides = {name: dataclasses.replace(getattr(shown, name), values=tuple(values)) for name in ("test", "reference")}
    assert _size(plot(dataclasses.replace(shown, **sides, **change)))


def _legend(axes):
    handles, titles = axes.get_legend_handles_labels()
    return {title: (each.get_linestyle(), each.get_marker()) for title, each in zip(titles, handles, strict=True)}


def test_epochs_are_numbered_and_lines_are_in_the_legend(made):
    runs, _ = draw(made.study(epochs=6)[0]).axes
    assert (runs.get_xlabel(), [*runs.get_xticks()]) == ("epoch", [1, 2, 3, 4, 5, 6])
    assert _legend(runs) == {"IPv4": ("-", "o"), "IPv6": ("--", "s")}
    runs, _ = draw(made.study(epochs=30)[0]).axes
    assert [*runs.get_xticks()] == [*range(1, 31, 3)]


@pytest.mark.parametrize(("values", "reference"), [(10, 10), (5, 10), (1, 1)])
def test_runs_of_a_single_epoch_are_numbered(made, values, reference):
    """As under design `paper`; a run without a value shifts those after it."""
    (runs,) = draw(made.record("rtt", "rtt", "ipv6", [0.02] * values, [0.01] * reference, epochs=1, blocks=10)).axes
    last = max(values, reference)
    assert (runs.get_xlabel(), [*runs.get_xticks()]) == ("run", [*range(1, last + 1)])
    assert [round(at) for at in np.asarray(runs.get_lines()[0].get_xdata())] == [*range(1, reference + 1)]


# --- values -----------------------------------------------------------------------------------------------------------


def test_the_file_of_values_has_every_run_and_the_answer(made):
    shown = made.study(epochs=6)[0]
    rows = list(csv.DictReader(io.StringIO(values_csv(shown))))
    for side in (shown.reference, shown.test):
        runs = [row for row in rows if row["arm"] == str(side.arm) and row["what"] == "throughput"]
        assert [float(row["value"]) for row in runs] == list(side.values)
        assert [row["run"] for row in runs] == [str(number) for number in range(1, 13)]
        assert {row["unit"] for row in runs} == {"bit/s"}
    answer = {row["what"]: row["value"] for row in rows if row["arm"] == str(shown.test.arm)}
    assert float(answer["change"]) == shown.estimate
    assert (answer["margin"], answer["verdict"]) == ("10.0", "within")
