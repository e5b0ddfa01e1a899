"""JUnit XML for the test pages of CI: red is a failure, trouble an error, inconclusive is skipped, accepted passes.

The format is pytest's own (family xunit2): junit-10.xsd of Jenkins' xunit plugin, with the `properties` of a test that
pytest writes and Jenkins reads, and with its `file`, which GitLab reads. GitLab keeps the first of two tests of one
name, and shows the text of a failure, not its message.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from pytest_ipperf.core.nightly.report import GateStatus, NightReport
from pytest_ipperf.core.nightly.session_summary import WHOLE_SESSION, SessionSummary
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.report.flow.quantity import unit_of
from pytest_ipperf.report.formats.base import Report
from pytest_ipperf.report.tables.cell_results import CellResult, ResultKind, asked, cell_results, change_text, headline
from pytest_ipperf.report.tables.component_rows import component_text, components_of, title_of
from pytest_ipperf.report.tables.intervals import deciding_interval
from pytest_ipperf.report.tables.verdict_rows import means_disagree, typical_text

_TAGS = {
    ResultKind.RED: "failure",
    ResultKind.BROKEN: "error",
    ResultKind.UNDECIDED: "skipped",
    ResultKind.UNJUDGED: "skipped",
    ResultKind.UNMEASURED: "skipped",
}
# Class of results whose test is not known, and of the session or night as a whole.
_CLASS = "ipperf"
# Characters that XML 1.0, section 2.2, does not allow in a document.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, kw_only=True)
class JUnit(Report):
    """One suite: a test for each cell and metric, one for each test without an answer, and one for the night itself.

    An incomplete session, or one that failed for none of these, adds an error, which comes first, so that no gate takes
    it for green.
    """

    name: str = "junit"
    title: str = "JUnit XML"
    suffix: str = ".xml"

    def render(self, summary: SessionSummary) -> bytes:
        results = cell_results(summary)
        tests = [each for each in results if each.nodeid != WHOLE_SESSION]
        cases = [*_session(summary, results), *_night(summary.night), *_cases(tests)]
        counted = Counter(each.tag for case in cases for each in case)
        counts = {
            "tests": f"{len(cases)}",
            **{f"{tag}s" if tag != "skipped" else tag: f"{counted[tag]}" for tag in ("failure", "error", "skipped")},
            "time": f"{summary.seconds or 0:.3f}",
        }
        suites = Element("testsuites", {"name": "pytest-ipperf", **_without_skipped(counts)})
        began = datetime.fromtimestamp(summary.began_at, UTC).isoformat(timespec="seconds")
        suite = SubElement(suites, "testsuite", {"name": _clean(summary.name), **counts, "timestamp": began})
        _properties(suite, _about(summary))
        suite.extend(cases)
        indent(suites, space=" ")
        text: bytes = tostring(suites, encoding="utf-8", xml_declaration=True)
        return text + b"\n"


report = JUnit()


def _without_skipped(counts: Mapping[str, str]) -> dict[str, str]:
    """Return the counts without `skipped`, which the schema's root element does not have."""
    return {name: count for name, count in counts.items() if name != "skipped"}


def _about(summary: SessionSummary) -> dict[str, str]:
    """Return the properties that all tests of the session share."""
    night = (
        {"light": summary.night.gate_status.name.lower(), "headline": summary.night.headline} if summary.night else {}
    )
    return {
        "state": summary.completeness.banner,
        "session": summary.name,
        "saved": summary.saved,
        **asked(summary),
        **night,
    }


def _session(summary: SessionSummary, results: Sequence[CellResult]) -> Iterator[Element]:
    """Yield the test case for a session that was broken off or is running, or whose failure no result explains."""
    banner = summary.completeness.banner
    failed = [each for each in results if each.nodeid == WHOLE_SESSION]
    said = [*filter(None, [banner]), *(f"{each.nodeid}: {each.sentence}" for each in failed)]
    if said:
        case = Element("testcase", {"classname": _CLASS, "name": "the session as a whole"})
        about = {"message": _clean(said[0]), "type": summary.completeness.state.value if banner else failed[0].code}
        SubElement(case, "error", about).text = _clean("\n".join((*said, headline(summary, results))))
        yield case


def _night(night: NightReport | None) -> Iterator[Element]:
    """Yield the test case for the night itself, an error if the night is unstable, shrunk or inconclusive."""
    if night is None:
        return
    case = Element("testcase", {"classname": _CLASS, "name": "the night as a whole"})
    text = _clean("\n".join((night.headline, *night.warnings, *night.notes)))
    if night.gate_status in (GateStatus.GREEN, GateStatus.RED):
        SubElement(case, "system-out").text = text
    else:
        about = {"message": _clean(night.headline), "type": night.gate_status.name.lower()}
        SubElement(case, "error", about).text = text
    yield case


def _cases(found: Iterable[CellResult]) -> Iterator[Element]:
    taken, counts = set[tuple[str, str]](), Counter[tuple[str, str]]()
    for result in found:
        classname, base_name, file = _place(result)
        name = base_name
        while (classname, name) in taken:
            counts[classname, base_name] += 1
            name = f"{base_name} ({counts[classname, base_name] + 1})"
        taken.add((classname, name))
        case = Element("testcase", {"classname": classname, "name": name, **({"file": file} if file else {})})
        _properties(case, _figures(result))
        text = _clean("\n".join((result.sentence, *_lines(result))))
        if tag := _TAGS.get(result.kind):
            SubElement(case, tag, {"message": _clean(result.sentence), "type": result.code}).text = text
        else:
            SubElement(case, "system-out").text = text
        yield case


def _place(result: CellResult) -> tuple[str, str, str]:
    """Return class and name of a test, as in pytest's own JUnit file, and its file."""
    address, bracket, parameters = _clean(result.nodeid).partition("[")
    file, *names = address.split("::")
    if not file.endswith(".py"):
        return _CLASS, _clean(result.name), ""
    classes = [file.removesuffix(".py").replace("/", "."), *names[:-1]]
    return ".".join(classes), f"{names[-1] if names else file}{bracket}{parameters}", file


def _figures(result: CellResult) -> dict[str, str]:
    """Return the properties of a result; empty ones are left out of the file."""
    cell, record = result.cell, result.record
    properties: dict[str, str] = {"verdict": result.code, "version": result.key.version if result.key else ""}
    if record:
        change, _, _ = change_text(record).partition(" [")
        interval = deciding_interval(record)
        properties |= {
            "metric": record.metric,
            "change": change,
            "interval": interval.text if interval else "",
            "interval_level": interval.level if interval else "",
            "margin": record.margin if record.judges else "",
            "epochs": f"{record.epochs}",
            "fingerprint": record.fingerprint,
        }
        for name, part in components_of(record).items():
            found = deciding_interval(part)
            properties |= {
                name: change_text(part).partition(" [")[0],
                f"{name}_interval": found.text if found else "",
                f"{name}_interval_level": found.level if found else "",
                f"{name}_margin": part.margin if part.judges else "",
                f"{name}_verdict": part.verdict,
            }
    if cell:
        properties |= {"p_adjusted": _digits(cell.p_adjusted), "p_history_adjusted": _digits(cell.p_history_adjusted)}
    return properties


def _lines(result: CellResult) -> Iterator[str]:
    """Yield the lines of figures below the sentence."""
    record, cell = result.record, result.cell
    if record is None:
        return
    yield ""
    if change := change_text(record):
        interval = deciding_interval(record)
        yield f"change      {change}{f', {interval.title}' if interval else ''}"
    yield from (f"{title_of(name):<11} {component_text(part)}" for name, part in components_of(record).items())
    if record.judges and record.margin:
        yield f"margin      {record.margin}"
    yield f"mean        {_means(record)}"
    yield f"epochs      {record.epochs} of {record.blocks} blocks (design {record.design})"
    sides = tuple(reversed(record.sides))
    yield f"completed   {', '.join(f'{side.completed} of {side.attempted} by {side.arm}' for side in sides)}"
    if cell and (p_values := [*_p_values(result)]):
        yield f"p           {'; '.join(p_values)}"


def _means(record: Record) -> str:
    sides = tuple(reversed(record.sides))
    unit = unit_of(METRICS[record.metric].metric, [side.mean for side in sides])
    means = ", ".join(f"{side.arm} {unit.text(side.mean)} {unit.name}".rstrip() for side in sides)
    typical = f"; typical, from {record.reference.arm}: {typical_text(record, unit.text)}"
    return f"{means}{f'{typical} {unit.name}'.rstrip() if means_disagree(record) else ''}"


def _p_values(result: CellResult) -> Iterator[str]:
    cell = result.cell
    if cell and cell.p_fresh is not None:
        yield f"fresh data {_digits(cell.p_fresh)}, by Holm {_digits(cell.p_adjusted)}"
    if cell and cell.p_history is not None:
        by = f"by Holm {_digits(cell.p_history_adjusted)}"
        yield f"against its last {cell.nights} nights {_digits(cell.p_history)}, {by}"


def _digits(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _properties(parent: Element, values: Mapping[str, str]) -> None:
    properties = SubElement(parent, "properties")
    for name, value in values.items():
        if value:
            SubElement(properties, "property", {"name": name, "value": _clean(value)})


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("", text)
