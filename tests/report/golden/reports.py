"""Every report of one fixed set of records, as text."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_ipperf import __version__
from pytest_ipperf.cli.commands.doctor import _lines as doctor_lines
from pytest_ipperf.core.design.cell import Arm, Cell, Workload
from pytest_ipperf.core.design.design import DESIGNS
from pytest_ipperf.core.design.plan import plan_for
from pytest_ipperf.core.nightly.session_summary import SessionSummary, Trouble
from pytest_ipperf.core.records.comparison import comparison
from pytest_ipperf.core.records.completeness import Completeness, SessionState
from pytest_ipperf.core.records.power_forecast import PowerForecast
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.lab.doctor import Finding, Grade
from pytest_ipperf.lab.inventory.builtin import BUILTIN
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.plugin.display import forecast
from pytest_ipperf.plugin.session.spread_cache import CellMetric
from pytest_ipperf.report.allure_card import description, title, values_csv
from pytest_ipperf.report.formats import FORMATS
from pytest_ipperf.report.studies import traffic
from pytest_ipperf.report.studies.response_time import study_notes, study_tables
from pytest_ipperf.report.studies.router import tables as router_tables
from pytest_ipperf.report.terminal import comparison as terminal_comparison
from pytest_ipperf.report.terminal import night as terminal_night
from pytest_ipperf.report.terminal.reasons import reasons, twin_reasons
from pytest_ipperf.report.terminal.verdict_lines import Line, answer_lines
from pytest_ipperf.report.workload_kinds import how_to_read, tables


class Reports:
    """The reports; a public method returns the text of the golden file that has its name.

    `factory` and `made` are the fixtures of this room that make records.
    """

    def __init__(self, factory: Any, made: Any) -> None:
        self._made = made
        self._night: SessionSummary = factory.night_summary()
        application = factory.application
        exceeds = application("http", 100, "ipv6", 1.21)
        failed = dataclasses.replace(exceeds.test, completed=8988, failed={"connect: refused": 12})
        self._applications: list[Record] = [
            factory.failing(application("http", 10, "ipv6", 1.01), 0.002),
            dataclasses.replace(exceeds, test=failed),
            application("smtp", 10, "ipv6", 1.02, spread=0.2),
            application("smtp", 10, "ipv6-tunnel", 1.0, verdict="invalid", sentence="all 10 epochs gave the same"),
            application("smtp", 10, "ipv4-twin", 1.0),
            application("smtp", 100, "ipv6", 1.04, design="smoke", judges=False, verdict="unjudged",
                        reasons=("never_judges",), sentence="Design smoke never judges.", epochs=2, blocks=1),
            factory.failing(application("http", 10, "ipv6-tunnel", 1.02), 0.03),
        ]  # fmt: skip
        study = made.study(epochs=5, blocks=1, arms=("ipv6", "ipv6-tunnel"))
        self._flows = [
            *(each for each in study if each.protocol == "udp" and each.levels["rate"] == 1e8),
            *(each for each in study if each.protocol == "rtt" and each.payload_bytes == 64),
            dataclasses.replace(study[0], verdict="measured", margin="", margin_fraction=None),
        ]
        self._session = SessionSummary(
            name="20261122T013000Z-0a1b2c", folder=Path("/records/runs/20261122T013000Z-0a1b2c"), began_at=1795311000.0,
            seconds=640.0, question={"schema": 6, "arguments": ["suites", "-m", "a b"], "pytest_ipperf": "0.1.0"},
            records=(*self._applications, *self._flows), saved="main", hosts=self._night.hosts,
            notes=("the clocks of client and server differ by 3 ms.",),
            troubles=(
                Trouble(nodeid="t.py::test_dns[lab-dns]", kind="infrastructure", sentence="bind did not answer"),
                Trouble(nodeid="t.py::test_ftp[lab-ftp]", kind="inconclusive", sentence="the budget was spent"),
                Trouble(nodeid="t.py::test_all", kind="failed", sentence="assert 1 == 2"),
            ),
            samples=factory.samples_of(self._applications[:1]),
            histories={self._applications[0].key: factory.past_of(self._applications[0], 40, changed=25)},
        )  # fmt: skip
        self._past = factory.past_of

    def terminal(self) -> str:
        records = [*self._applications, *self._flows]
        found = [
            *reasons(records, {"t.py::test_ftp[lab-ftp]": "inconclusive: the budget was spent"}, {}),
            *twin_reasons(records),
        ]
        return "\n".join(
            [*tables(records), "", *(f"{'red' if each.red else 'not red'}: {each.text}" for each in found)]
        )

    def terminal_answer(self) -> str:
        running = dataclasses.replace(
            self._session,
            troubles=(),
            completeness=Completeness(state=SessionState.BROKEN_OFF, measured=6, planned=12, resume="last"),
        )
        records = [*self._applications, *self._flows]
        found = [
            f"{line.colour or 'plain'}: {line.text}"
            for each, width in ((self._session, 80), (self._session, 120), (self._night, None), (running, 60))
            for line in (*answer_lines(each, width), Line("", "width"))
        ]
        return "\n".join([*found, *tables(records, 80, detail=False), *how_to_read(80)])

    def terminal_night(self) -> str:
        assert self._night.night is not None
        return "\n".join(terminal_night.lines(self._night.night))

    def markdown(self) -> str:
        return self._both("markdown")

    def junit(self) -> str:
        return self._both("junit")

    def csv(self) -> str:
        return self._both("csv")

    def json(self) -> str:
        texts = (FORMATS["json"].render(_abridged(each)).decode() for each in (self._session, self._night))
        return "\n\n".join(texts).replace(f"pytest-ipperf {__version__}", "pytest-ipperf VERSION")

    def page(self) -> str:
        night = dataclasses.replace(self._night, samples={}, histories={})  # which the session's page shows
        texts = (PageText(FORMATS["html"].render(each).decode()).lines for each in (self._session, night))
        return "\n\n".join("\n".join(each) for each in texts)

    def allure_card(self) -> str:
        record = self._applications[1]
        failing = self._applications[-1]
        texts = [description(record), values_csv(_shortened(record)), description(failing)]
        return "\n".join([title(_cell_of(record), record.metric), *texts, values_csv(_shortened(failing))])

    def study_of_response_times(self) -> str:
        records = [
            dataclasses.replace(each, design="paper", judges=False, epochs=1, blocks=30)
            for each in self._applications[:3]
        ]
        lines = [line for table in study_tables(records) for line in table.lines()]
        return "\n".join([*lines, *study_notes(records)])

    def study_of_routers(self) -> str:
        return "\n".join(router_tables(self._made.study()))

    def study_of_traffic(self) -> str:
        records = [each for bed in ("lab", "pair") for each in self._made.sweep(bed)]
        records += [each for carrier in ("tcp", "udp") for each in self._made.messages("lab", carrier)]
        found, notes = traffic.tables(records)
        figures = [
            line
            for name, each in traffic.plots(records)
            for line in (f"{name}: {each.caption}", *(" | ".join(row) for row in (each.head, *each.rows)), "")
        ]
        return "\n".join([*(line for table in found for line in (*table.lines(), "")), *notes, "", *figures])

    def comparison(self) -> str:
        records = self._applications[:3]
        then = {each.key: self._past(each, 1)[0] for each in records[:2]}
        level = {each.key: self._past(each, 1, level=0.2)[0] for each in records}
        found = comparison(level, then, lambda name: METRICS[name].metric)
        return "\n".join(terminal_comparison.lines(found, "then", "now", everything=True))

    def forecast(self) -> str:
        design = DESIGNS["standard"]
        cells = [_cell_of(each) for each in self._applications[:3]]
        plans = [plan_for(each.workload, [Arm(4, "native"), each.arm], design, 7) for each in cells]
        forecasts = {
            CellMetric(cells[0], "response_time"): PowerForecast(sessions=3, detectable=0.021, margin_fraction=0.1),
            CellMetric(cells[1], "response_time"): PowerForecast(
                sessions=3, detectable=0.12, margin_fraction=0.05, epochs=90, better=("nightly", 0.08)
            ),
        }
        session: Any = SimpleNamespace(
            to_measure=plans, plans=plans, resumed=None, forecast_s=lambda plan: 120.0, questions=dict.fromkeys(cells),
            design_of=lambda _: design,
            settings=SimpleNamespace(design=design, budget_s=500.0, flags=False),
            confirms=False,
        )  # fmt: skip
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(forecast, "power_forecasts", lambda _: forecasts.items())
            return "\n".join(forecast.forecast_lines(session, each=True))

    def doctor(self) -> str:
        findings = [
            Finding(grade=Grade.WELL, subject=host, topic="ports", said="ports 20000 to 29999 are free", remedy="")
            for host in ("client", "server")
        ]
        findings += [
            Finding(grade=Grade.DOUBTFUL, subject="server", topic="resources", said="1 processor", remedy="use 2"),
            Finding(grade=Grade.WRONG, subject="client -> server", topic="mtu", said="a packet of 1500 bytes did not "
                    "arrive, and no router reported that it was too big", remedy="lower the MTU of eth0 to 1480"),
        ]  # fmt: skip
        return "\n".join(doctor_lines(BUILTIN["loopback"], findings))

    def _both(self, name: str) -> str:
        return "\n\n".join(FORMATS[name].render(each).decode() for each in (self._session, self._night))


def _cell_of(record: Record) -> Cell:
    workload = Workload(
        testbed=record.testbed, protocol=record.protocol, client=record.client, connections=record.connections,
        payload_bytes=record.payload_bytes, levels=(),
    )  # fmt: skip
    return Cell(workload, record.test.arm)


def _shortened(record: Record) -> Record:
    """Keep the first two runs of each arm."""
    test, reference = (
        dataclasses.replace(side, values=side.values[:2], completed_values=(side.completed_values or ())[:2])
        for side in (record.test, record.reference)
    )
    return dataclasses.replace(record, test=test, reference=reference)


def _abridged(summary: SessionSummary) -> SessionSummary:
    """Keep one cell of each result, and few runs of those."""
    records = {each.verdict: _shortened(each) for each in reversed(summary.records)}
    night = summary.night
    if night is not None:
        cells = {
            each.decision: dataclasses.replace(
                each, screen=each.screen and _shortened(each.screen), fresh=each.fresh and _shortened(each.fresh)
            )
            for each in reversed(night.cells)
        }
        night = dataclasses.replace(night, cells=tuple(cells.values()))
    return dataclasses.replace(summary, records=tuple(records.values()), night=night)


class PageText(HTMLParser):
    """The text of a page: a line for each block and table row, without drawings."""

    _INLINE = frozenset({"a", "b", "code", "i", "span", "td", "th"})
    _LEFT_OUT = frozenset({"style", "svg", "head"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self._parts: list[str] = []
        self._depth = 0
        self.feed(text)
        self.close()

    @property
    def lines(self) -> Iterator[str]:
        return (text for line in "".join(self._parts).split("\n") if (text := " ".join(line.split()).strip("| ")))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._depth += tag in self._LEFT_OUT
        self._parts.append("" if tag in self._INLINE else "\n")

    def handle_endtag(self, tag: str) -> None:
        self._depth -= tag in self._LEFT_OUT
        self._parts.append(" | " if tag in {"td", "th"} else "" if tag in self._INLINE else "\n")

    def handle_data(self, data: str) -> None:
        if not self._depth:
            self._parts.append(data.replace("\n", " "))


def rounded(text: str) -> str:
    """Return the text with numbers of at most 9 digits: more of them depend on the libraries' versions."""
    return re.sub(r"-?\d+\.\d{8,}(?:e[-+]?\d+)?|-?\d\.\d+e[-+]\d+", lambda found: f"{float(found[0]):.9g}", text)
