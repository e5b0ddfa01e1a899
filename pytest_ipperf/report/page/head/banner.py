"""The banner: a verdict's shape and word, one plain sentence, and below it counts, place and next step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from pytest_ipperf.core.nightly.aa_check import aa_check_of
from pytest_ipperf.core.nightly.session_summary import SessionSummary, Trouble
from pytest_ipperf.core.portable.units import seconds_text
from pytest_ipperf.core.records.completeness import UNMEASURED
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.report.answer.next_step import look_closer, next_step
from pytest_ipperf.report.answer.sentence import plain_answer, worse_by
from pytest_ipperf.report.answer.since import since_text
from pytest_ipperf.report.answer.values import note_on_change
from pytest_ipperf.report.answer.words import day_text, listed, unbroken
from pytest_ipperf.report.flow.tables import answered
from pytest_ipperf.report.page.head.night import aa_check_line, night_part
from pytest_ipperf.report.page.html.badges import BROKEN, PLAIN, badge, shape, trouble_class, verdict_class
from pytest_ipperf.report.page.html.markup import NOTHING, Markup, command, element, joined
from pytest_ipperf.report.page.method.hosts import versions_text
from pytest_ipperf.report.tables.cell_results import VERDICTS
from pytest_ipperf.report.tables.network_notes import testbed_text
from pytest_ipperf.report.tables.paragraphs import capital

_INCONCLUSIVE = "inconclusive"
_KINDS = {"infrastructure": "trouble", UNMEASURED: "not measured"}
"""Words of tests without an answer that differ from their kind."""


def banner(class_: str, word: str, sentence: str, *below: Markup) -> Markup:
    """Return a banner: the shape and word of its class, the sentence as the page's title, and what stands below."""
    light = element("span", shape(class_), word, class_="light")
    return element("div", light, element("h1", unbroken(sentence)), *below, class_=f"banner {class_}")


def session_head(summary: SessionSummary) -> Iterator[Markup]:
    """Yield the top of a session's page: when, the banner, counts and facts."""
    yield element("p", f"pytest-ipperf, {day_text(summary.began_at)}", class_="kicker")
    if summary.night:
        yield night_part(summary, summary.night, joined((_facts(summary), _next(summary))))
        return
    yield _banner(summary)


def counts(records: Iterable[Record], without: Iterable[Trouble]) -> Markup:
    """Return badges that count the answers of each verdict, and the tests without an answer by kind."""
    found = Counter(record.verdict for record in answered(records))
    kinds = Counter(trouble.kind for trouble in without)
    # A test for which no time was left is inconclusive like a cell whose data show neither.
    found[_INCONCLUSIVE] += kinds.pop(_INCONCLUSIVE, 0)
    badges = [badge(f"{found[verdict]} {verdict}", verdict_class(verdict)) for verdict in VERDICTS if found[verdict]]
    badges += [badge(f"{count} {_KINDS.get(kind, kind)}", trouble_class(kind)) for kind, count in kinds.items()]
    return element("p", *badges, class_="counts") if badges else NOTHING


def title_of(summary: SessionSummary) -> str:
    """Return the title of the window, which says the same as the banner."""
    night = summary.night.headline if summary.night else plain_answer(summary.records, summary.troubles).sentence
    return summary.completeness.banner or night


def _banner(summary: SessionSummary) -> Markup:
    records = [record for record in summary.records if not record.twin]
    answer = plain_answer(records, summary.troubles)
    note = note_on_change(answer.sentence, records)
    class_, word = _state(summary, answer.verdict)
    below = [
        element("p", f"{note}.", class_="soft") if note else NOTHING,
        counts(records, summary.troubles),
        _never(records),
        _since(records, summary),
        _facts(summary),
        _aa(summary),
    ]
    below.append(_next(summary))
    if state := summary.completeness.banner:
        word, _, rest = state.partition(": ")
        found = answer.sentence if records else "No cell has an answer so far."
        return banner(BROKEN, word, rest, element("p", f"So far: {found}" if records else found), *below)
    return banner(class_, word, answer.sentence, *below)


def _state(summary: SessionSummary, verdict: str) -> tuple[str, str]:
    """Return class and word of the banner; trouble is worse than anything but a shown breach."""
    kinds = {trouble.kind for trouble in summary.troubles}
    if verdict != "exceeds" and kinds & {"infrastructure", "invalid", "failed"}:
        return BROKEN, "trouble"
    if verdict in ("within", "measured", "") and _INCONCLUSIVE in kinds:
        return verdict_class(_INCONCLUSIVE), _INCONCLUSIVE
    return (verdict_class(verdict), verdict) if verdict else (PLAIN, "no answer")


def _never(records: Sequence[Record]) -> Markup:
    never = dict.fromkeys(record.design for record in records if not record.judges)
    if not never:
        return NOTHING
    bare = all(record.estimate is None for record in records)
    kind = " of the means" if bare else " without intervals"
    return element("p", f"Design {listed(never)} never judges: these are changes{kind}.", class_="soft")


def _facts(summary: SessionSummary) -> Markup:
    """Return where and how long was measured, and on which versions, with a link to all facts of the hosts."""
    link = element("a", versions_text(summary) or "hosts and versions", href="#environment")
    return element("p", joined(filter(None, (_where(summary), link)), "; "), class_="soft")


def _since(records: Iterable[Record], summary: SessionSummary) -> Markup:
    """Return since when the worst cell is worse; empty without a worse cell or a history."""
    worse = [record for record in answered(records) if record.verdict == "exceeds" and record.key in summary.histories]
    if not worse:
        return NOTHING
    which = " the worst cell" if len(worse) > 1 else ""
    text = unbroken(since_text(max(worse, key=worse_by), summary))
    return element("p", element("b", f"Since when{which}: "), f"{text}.")


def _where(summary: SessionSummary) -> str:
    """Return testbed, design and duration as one line."""
    beds = dict.fromkeys(record.testbed for record in summary.records)
    parts = [testbed_text([each for each in summary.records if each.testbed == bed]) for bed in beds]
    designs = listed(dict.fromkeys(record.design for record in summary.records)) if summary.records else ""
    parts += [f"design {designs}"] if designs else []
    parts += [f"measured in {seconds_text(summary.seconds)}"] if summary.seconds is not None else []
    return capital("; ".join(parts))


def _aa(summary: SessionSummary) -> Markup:
    found = aa_check_of(summary.records, lambda name: METRICS[name].metric)
    return aa_check_line(found) if found else NOTHING


def _next(summary: SessionSummary) -> Markup:
    """Return what to do next: look at what is worse, then the command for what is open."""
    text, look = next_step(summary), unbroken(look_closer(summary))
    parts = [element("p", "Next: ", f"{look}.", class_="next")] if look else []
    if text:
        parts.append(element("p", "Then: " if look else "Next: ", _with_command(text), class_="next"))
    return joined(parts)


def _with_command(text: str) -> Markup:
    """Return a sentence with its command as code."""
    before, _, after = text.partition(": ")
    return joined((f"{before}: ", command(after)))
