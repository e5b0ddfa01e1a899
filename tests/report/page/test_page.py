"""The page of a session: the answer first, complete and self-contained, and safe for any record."""

import dataclasses
import itertools
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.nightly.report import RANK, GateDecision, GateStatus
from pytest_ipperf.core.nightly.session_summary import HostSummary, SessionSummary, Trouble
from pytest_ipperf.core.records.history_entry import HistoryKey
from pytest_ipperf.report.flow.tables import in_order
from pytest_ipperf.report.formats import FORMATS
from pytest_ipperf.report.page import anchor, document, encoded, history, page, write
from pytest_ipperf.report.page.html import markup
from pytest_ipperf.report.page.html.badges import _DECISIONS, _SHAPES, _VERDICTS
from pytest_ipperf.report.page.html.markup import element
from pytest_ipperf.report.tables.paragraphs import paragraphs
from pytest_ipperf.report.terminal.night import lines as night_lines
from pytest_ipperf.store import EventLog
from tests.report.page.contrast import contrast
from tests.store.kept import facts

INLINE = {"a", "b", "code", "i", "span"}
ALONE = {"meta", "link", "path", "circle", "use", "br", "input"}
SVG = "{http://www.w3.org/2000/svg}"
EVIL = '<script>alert(1)</script>"><img src=x onerror=alert(2)> & $x_1$'


class Reader(HTMLParser):
    """A parser that checks that each tag is closed in its place, and collects all tags, attributes and texts."""

    def __init__(self, text):
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.open: list[int] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self._apart(tag)
        self.seen.append((tag, dict(attrs)))
        self.texts.append("")
        if tag not in ALONE:
            self.open.append(len(self.seen) - 1)

    def handle_startendtag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        self.texts.append("")

    def handle_endtag(self, tag):
        if tag not in ALONE:
            assert self.seen[self.open.pop()][0] == tag
            self._apart(tag)

    def _apart(self, tag):
        """Separate texts of block elements by a space."""
        if tag not in INLINE:
            self.handle_data(" ")

    def handle_data(self, data):
        for at in self.open:
            self.texts[at] += data

    def of(self, tag, **having):
        """Return the texts of all such elements with these attributes, with single spaces."""
        wanted = {key.rstrip("_"): value for key, value in having.items()}
        return [
            " ".join(text.split())
            for (name, attributes), text in zip(self.seen, self.texts, strict=True)
            if name == tag and wanted.items() <= attributes.items()
        ]

    def values(self, attribute):
        return [attributes[attribute] or "" for _, attributes in self.seen if attribute in attributes]


def summary_of(records, **change):
    session_summary = SessionSummary(
        name="20261122T010000Z-5eed00", folder=Path("/r/20261122T010000Z-5eed00"), began_at=1795309200.0, seconds=90.0,
        question={"arguments": ["suites", "-m", "smtp or http"], "pytest_ipperf": "0.1.0"}, records=tuple(records),
    )  # fmt: skip
    return dataclasses.replace(session_summary, **change)


def found(factory, place, figures, verdict, **change):
    """Return a cell (protocol, connections, arm) with these figures: the change and the ends of its interval."""
    estimate, low, high = figures
    own = factory.application(*place, 1.0)
    return dataclasses.replace(own, estimate=estimate, low=low, high=high, verdict=verdict, **change)


@pytest.fixture(scope="module")
def night(factory):
    return factory.night_summary()


@pytest.fixture(scope="module")
def text(night):
    return page(night)


@pytest.fixture(scope="module")
def shown(text):
    return Reader(text)


def said(records, **change):
    return Reader(page(summary_of(records, **change))).of("section", class_="arm")


# --- the answer -------------------------------------------------------------------------------------------------------


def test_the_question_comes_first_and_its_answer_in_sentences_by_arm(factory, golden):
    records = [
        *(found(factory, ("smtp", count, "ipv6-isatap"), (2.1 + count, -0.4, 16.2), "within") for count in (1, 10)),
        found(factory, ("http", 10, "ipv6-isatap"), (3.04, 1.0, 5.04), "within"),
        found(factory, ("http", 500, "ipv6-isatap"), (14.0, 11.0, 17.0), "exceeds"),
        found(factory, ("http", 500, "ipv6"), (0.5, -0.6, 1.6), "within"),
    ]
    shown = Reader(page(summary_of(records)))
    headings = [text for (tag, _), text in zip(shown.seen, shown.texts, strict=True) if re.fullmatch("h[1-6]", tag)]
    assert headings[1:4] == ["The answer", "IPv6", "IPv6 isatap"]
    assert shown.of("p", class_="counts") == ["▲1 exceeds✓4 within"]
    golden("\n".join([*shown.of("h1"), *shown.of("section", class_="arm")]))


def test_whatever_the_order_of_the_tests_the_page_is_the_same_by_level(factory, made):
    """Levels are in the order of their size, as in tables, however a plugin has shuffled the tests."""
    records = [
        *(found(factory, (name, count, "ipv6"), (14.0, 11.0, 17.0), "exceeds")
          for name in ("http", "smtp") for count in (1, 10, 100)),
        *made.study()[:4],
    ]  # fmt: skip
    samples = {(f"lab.100mbit-http-c{count}-1k", Arm(6, "native")): [0.1, 0.2] for count in (1, 10, 100)}
    pages = [page(summary_of(each, samples=samples)) for each in (records, records[::-1], records[1::2] + records[::2])]
    assert pages[0] == pages[1] == pages[2]
    shown = Reader(pages[0])
    assert re.search(r"HTTP exceeds .* at 1 connection: .*; at 10 connections: .*; at 100 ", shown.of("main")[0])
    (tails,) = shown.of("section", id="tails")
    assert re.findall(r"HTTP at (\d+) connections? IPv4", tails) == ["1", "10", "100"]
    assert re.findall(r"#cell-lab.100mbit-http-c(\d+)-", pages[0].partition('id="map"')[2])[:3] == ["1", "10", "100"]


def test_a_margin_that_is_more_here_is_told_with_what_it_comes_to(factory, golden):
    wider = found(factory, ("http", 1, "ipv6"), (0.5, -0.6, 1.6), "within", margin="10%,0.5ms", margin_fraction=0.531)
    golden("\n".join(said([wider])))


@pytest.mark.parametrize("reason", ["too_wide", "straddles"])
def test_what_is_undecided_says_why(factory, reason, golden):
    open_ = found(factory, ("smtp", 10, "ipv6"), (7.6, -3.1, 19.4), "inconclusive", reasons=(reason,))
    golden("\n".join(said([open_])))


def test_an_invalid_measurement_is_named_with_its_sentence(factory, golden):
    broken = found(factory, ("smtp", 10, "ipv6"), (7.6, -3.1, 19.4), "invalid", sentence="all 6 epochs gave the same")
    golden("\n".join(said([broken])))


def test_of_many_cells_the_worst_are_named_and_the_others_counted(factory, golden):
    records = [found(factory, ("smtp", count, "ipv6"), (11.0 + count, 10.5, 99.0), "exceeds") for count in range(1, 10)]
    (arm,) = said(records)
    assert re.findall(r"at (\d) connections", arm) == ["9", "8", "7", "6", "5"]
    golden(arm)


def test_tests_without_an_answer_are_told_at_once_each_sentence_once(factory):
    lost = [
        *(Trouble(nodeid=f"t.py::t[{at}]", kind="infrastructure", sentence="host beta is gone") for at in range(7)),
        Trouble(nodeid="t.py::u", kind="inconclusive", sentence="of the budget nothing is left"),
    ]
    shown = Reader(page(summary_of([factory.application("smtp", 10, "ipv6", 1.0)], troubles=tuple(lost))))
    assert shown.of("p", class_="counts") == ["?1 inconclusive✓1 within✕7 trouble"]
    (items,) = shown.of("ul", class_="said")[1:]
    assert items.count("host beta is gone") == 1
    assert "(t.py::t[0], t.py::t[1], t.py::t[2], t.py::t[3], t.py::t[4] and 2 more)" in items
    assert "Not measured: the budget was spent. of the budget nothing is left (t.py::u)" in items


def test_very_many_troubles_and_notes_are_counted(factory):
    lost = tuple(Trouble(nodeid=f"t.py::t[{at}]", kind="failed", sentence=f"boom {at}") for at in range(45))
    records = [factory.application("smtp", 10, "ipv6", 1.0)]
    (main,) = Reader(page(summary_of(records, troubles=lost, notes=tuple(f"note {at}." for at in range(20))))).of(
        "main"
    )
    assert "boom 39" in main
    assert "boom 40" not in main
    assert "and 5 more" in main
    assert "note 11. And 8 more, in the records." in main


def test_a_session_without_any_answer_has_a_page(factory):
    lost = Trouble(nodeid="t.py::t", kind="failed", sentence="boom")
    shown = Reader(page(summary_of([], troubles=(lost,), seconds=None)))
    assert shown.of("h1") == ["Nothing was measured; 1 test has no answer."]
    assert "boom" in shown.of("main")[0]


def test_a_design_that_never_judges_gives_changes_and_says_so(made):
    records = [made.record("rtt", "rtt", "ipv6", [1.1] * 10, [1.0] * 10, epochs=1, blocks=10, payload_bytes=size)
               for size in (64, 128, 256, 512)]  # fmt: skip
    shown = Reader(page(summary_of(records)))
    assert "Design paper never judges: these are changes of the means." in shown.of("header")[0]
    assert (
        "○measured RTT: +10.0 % (payload 64) to +10.0 % (payload 512), over 4 levels."
        in shown.of("section", class_="arm")[0]
    )
    assert "95 % interval" not in " ".join(shown.of("div", class_="cells"))


def test_the_studies_tables_are_there_in_their_own_shape(factory, made):
    cells = [factory.application("http", count, "ipv6", 1.05, epochs=10, blocks=1) for count in (1, 10)]
    study = [
        dataclasses.replace(each, design="paper", judges=False, epochs=1, blocks=10, estimate=None, low=None, high=None)
        for each in cells
    ]
    captions = Reader(page(summary_of([*study, *made.study()]))).of("caption")
    assert "Table 3-1: HTTP average response times in milliseconds, by connections at once" in captions
    assert "TCP: throughput at the receiver in Mbit/s, by window" in captions
    assert "Table V of paper 001 again: figures of IPv6 and tunnels relative to IPv4" in captions


def test_a_twin_is_no_arm_but_the_sentinel(factory):
    records = [factory.application("smtp", 10, arm, 1.0) for arm in ("ipv6", "ipv4-twin")]
    assert len(said(records)) == 1
    alone = page(summary_of(records))
    assert "A/A check: says nothing, as it needs 3 cells with a twin and there is 1; the reference differed" in alone
    assert "A/A check passed" not in alone


def test_of_several_questions_about_a_cell_each_has_its_answer(factory, golden):
    """Whichever test was last: within its 50 % must not hide that the other's 5 % is exceeded."""
    tight = found(
        factory, ("smtp", 10, "ipv6"), (12.0, 9.0, 15.0), "exceeds", margin="5%", margin_fraction=0.05, nodeid="t"
    )
    loose = dataclasses.replace(tight, margin="50%", margin_fraction=0.5, nodeid="l", verdict="within")
    for records in ([tight, loose], [loose, tight]):
        shown = Reader(page(summary_of(records)))
        assert shown.of("p", class_="counts") == ["▲1 exceeds✓1 within"]
        (arm,) = shown.of("section", class_="arm")
        golden(arm)
        assert "▲exceeds" in shown.of("section", id="tables")[0]
        assert "5 or 50 %" in shown.of("section", id="method")[0]


def test_of_several_questions_about_a_flow_tables_and_plots_show_the_worst_answer(made):
    cells = made.study()
    tight = [
        dataclasses.replace(each, verdict="exceeds", margin="1%", margin_fraction=0.01, nodeid="t") for each in cells
    ]
    loose = [dataclasses.replace(each, nodeid="l") for each in cells]
    assert in_order([*tight, *loose]) == in_order([*loose, *tight]) == in_order(tight)
    # The same test again is another measurement of the same question.
    again = [dataclasses.replace(each, verdict="within", seed=8, nodeid="t") for each in cells]
    assert in_order([*tight, *again]) == in_order(again)


def test_failures_of_the_reference_count_once_for_all_arms_that_share_it(factory):
    def with_failures(arm, failed, epochs):
        one = factory.application("smtp", 10, arm, 1.0, epochs=epochs)
        lost = [
            dataclasses.replace(side, failed={"connect: refused": count} if count else {}, attempted=100 * epochs)
            for side, count in ((one.test, failed), (one.reference, 5))
        ]
        return dataclasses.replace(one, test=lost[0], reference=lost[1])

    records = [with_failures("ipv6", 0, 8), with_failures("ipv6-tunnel", 2, 10), with_failures("ipv6-isatap", 0, 8)]
    records.append(dataclasses.replace(records[0], margin="20%", nodeid="another question"))
    (method,) = Reader(page(summary_of(records))).of("section", id="method")
    assert "Failures 7 of 3600 connections; one that fails counts with the deadline of 10 s" in method


# --- the night --------------------------------------------------------------------------------------------------------


def test_the_night_comes_above_all_with_its_light_and_every_cell_of_which_there_is_something_to_say(shown, night):
    worst = "HTTP at 100 connections, IPv6: 60.6 instead of 50.3 ms (+20.5 %, allowed 10 %)"
    (title,) = (each.replace("\N{NO-BREAK SPACE}", " ") for each in shown.of("h1"))
    assert title == f"▲red 1 of 19 cells is beyond the margin, confirmed in fresh epochs: {worst}"
    (output,) = shown.of("section", class_="night")
    body = shown.of("body")[0]
    assert body.index(output[:60]) < body.index("What the screening found")
    for words in (
        "Exit status 1.", "Beyond the margin (1)", "No longer measured (1)", "Accepted (1)", "Inconclusive (1)",
        "40 % accepted until 2026-12-24 by ada (sit has no offloads here, ticket NET-7)", "chance gives 3 at most",
        "bind did not answer on 198.18.0.6 port 53", "lab.100mbit-ftp-c10-1m-ipv6 response time: earlier nights",
    ):  # fmt: skip
        assert words in output
    assert "allowed 10 %) 1 of 19 cells is no longer" in output.replace("\N{NO-BREAK SPACE}", " ")
    assert "Twins of the reference are not counted." in output
    assert (
        "15 of 19 cells are within the margin; 1 worse, as is accepted; 1 inconclusive. The two values are means"
        in output
    )


def test_in_a_night_every_cell_has_its_ruling_and_its_sentence(shown, night):
    (cells,) = shown.of("div", class_="cells")
    for cell in night.night.cells:
        assert f"{cell.key.cell}" in cells
        assert cell.decision.value in cells
        assert cell.sentence[1:] in cells


@pytest.mark.parametrize(
    ("headline", "words"),
    [
        ("green: 2 of 2 cells are within the margin", "green 2 of 2 cells are within the margin Exit"),
        (
            "nothing decided: 0 of 1 cell is within the margin; 1 inconclusive",
            "nothing decided 0 of 1 cell is within the margin 1 inconclusive. Exit",
        ),
        (
            "unstable: in 5 of 9 cells the reference differs from its twin; 1 of 9 cells is no longer measured: a; b",
            "unstable In 5 of 9 cells the reference differs from its twin 1 of 9 cells is no longer measured; b. Exit",
        ),
    ],
)
def test_the_answer_of_a_night_reads_as_sentences(night, headline, words):
    light = next(light for light in GateStatus if headline.startswith(f"{light.word}: "))
    other = dataclasses.replace(night.night, headline=headline, gate_status=light, cells=(), troubles={})
    text = page(dataclasses.replace(night, night=other, samples={}, histories={}, records=night.records[:1]))
    assert words in Reader(text).of("section", class_="night")[0]


def test_a_night_tells_what_it_found_in_the_order_of_the_terminal(night):
    """Each under its heading, so that a reader of both finds everything in the same order."""
    cells = [
        dataclasses.replace(night.night.cells[0], decision=decision, sentence=decision.name)
        for decision in GateDecision
    ]
    other = dataclasses.replace(night.night, cells=tuple(cells), troubles={})
    shown = Reader(page(dataclasses.replace(night, night=other, samples={}, histories={}, records=night.records[:1])))
    names = [each.name for each in RANK if each is not GateDecision.WITHIN]
    (output,) = shown.of("section", class_="night")
    assert sorted(names, key=lambda name: output.index(f": {name}")) == names
    assert [line.rpartition(": ")[2] for line in night_lines(other)[: len(names)]] == names
    assert set(RANK) == set(GateDecision)


def test_a_night_without_a_sentinel_says_so(night):
    bare = dataclasses.replace(
        night,
        night=dataclasses.replace(night.night, aa_check=None),
        samples={},
        histories={},
        records=night.records[:1],
    )
    assert "A/A check: none, as the reference had no twin." in page(bare)


# --- the page is whole, alone, and accessible -------------------------------------------------------------------------


def test_each_name_is_there_once_and_every_link_leads_somewhere(shown):
    names = shown.values("id")
    assert len(names) == len(set(names)) > 0
    targets = [value[1:] for value in shown.values("href") if value.startswith("#")]
    assert targets
    assert set(targets) <= set(names)


def test_every_cell_can_be_linked_to(shown, night):
    names = set(shown.values("id"))
    assert {anchor(record.key) for record in night.records} <= names
    assert {anchor(cell.key) for cell in night.night.cells} <= names


def test_of_several_questions_about_a_cell_the_first_has_the_name(factory):
    one = factory.application("smtp", 10, "ipv6", 1.0)
    names = Reader(page(summary_of([one, dataclasses.replace(one, margin="20%")]))).values("id")
    assert names.count(anchor(one.key)) == 1


def test_the_page_loads_nothing_and_runs_nothing(text, shown):
    tags = {tag for tag, _ in shown.seen}
    assert not {"script", "img", "iframe", "object", "embed", "base", "form"} & tags
    assert not [name for _, attributes in shown.seen for name in attributes if name.startswith("on")]
    (policy,) = [each["content"] for tag, each in shown.seen if each.get("http-equiv") == "Content-Security-Policy"]
    (rules,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    assert policy == markup.policy(rules)
    assert not [attributes for _, attributes in shown.seen if "style" in attributes]
    assert [each["href"][:5] for tag, each in shown.seen if tag == "link"] == ["data:"]
    icon = next(each["href"] for tag, each in shown.seen if tag == "link")
    assert not re.findall(r"https?:|//|@import|url\((?!#)", text.replace(icon, ""))


def test_headings_are_in_order_tables_named_and_scroll_boxes_reached_by_keys(shown):
    levels = [int(tag[1]) for tag, _ in shown.seen if re.fullmatch("h[1-6]", tag)]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    tags = [tag for tag, _ in shown.seen]
    assert tags.count("table") == tags.count("caption") > 0
    scopes = {attributes.get("scope") for tag, attributes in shown.seen if tag == "th"}
    assert scopes == {"row", "col", "rowgroup"}
    boxes = [each for _, each in shown.seen if each.get("class") in ("wide", "drawn")]
    assert {(each["role"], each["tabindex"]) for each in boxes} == {("group", "0")}
    assert all(each["aria-label"] for each in boxes)
    assert [each["lang"] for tag, each in shown.seen if tag == "html"] == ["en"]


def test_verdicts_differ_in_word_colour_and_shape():
    for known in (_VERDICTS, _DECISIONS):
        assert set(known.values()) <= set(_SHAPES)
    assert len(set(_SHAPES.values())) == len(_SHAPES)
    assert len(set(_VERDICTS.values())) == len(_VERDICTS)


def test_all_texts_can_be_read_on_light_and_dark_pages():
    rules = (Path(markup.__file__).with_name("style") / "10-base.css").read_text()
    rules += (Path(markup.__file__).with_name("style") / "70-narrow.css").read_text()
    blocks = [
        dict(re.findall(r"--([\w-]+): (#\w{6});", block)) for block in re.findall(r":root \{(.*?)\}", rules, re.DOTALL)
    ]
    light, dark, printed = blocks
    assert light.keys() == dark.keys()
    for colours in (light, dark, light | printed):
        for ground in ("ground", "card"):
            for ink in ("ink", "soft", "link"):
                assert contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground)
        for name in (f"c{number}" for number in range(8)):
            assert contrast(colours[name], colours["card"]) >= 4.5, name
        for name in ("good", "bad", "open", "broken", "known", "plain"):
            assert contrast(colours[name], colours[f"{name}-ground"]) >= 4.5, name
            assert contrast(colours["ink"], colours[f"{name}-ground"]) >= 4.5, name
        assert contrast(colours["soft"], colours["known-ground"]) >= 4.5  # a cell that was linked to


def test_method_and_environment_tell_what_the_figures_rest_on(shown):
    (method,) = shown.of("section", id="method")
    for words in (
        "each epoch's median of its blocks' log ratio to the reference, the mean over the epochs, with a",
        "10 epochs of 3 blocks, so 30 runs of each arm", "one-sided 95 % bounds",
        "every arm once in each block, within it in a random order that seed 7 gives",
        "HTTP response time per connection: 10 % (at least 0.5 ms), here 10 to 25 %", "HTTP: apache 2.4.67",
        "Failures none of 270000 connections; one that fails counts with the deadline of 10 s",
        "paper 000, section 2.3",
    ):  # fmt: skip
        assert words in method
    (environment,) = shown.of("section", id="environment")
    for words in ("pytest suites -m 'a b'", "pytest-ipperf 0.1.0", "kernel 6.12.5", "sysctl net.a 0 1 2"):
        assert words in environment


def test_hosts_are_told_with_names_and_addresses_and_those_of_labs_by_role(made):
    result = {"alpha": ("198.18.0.1", "2001:2::1"), "server": ("198.18.0.2",), "": ()}
    hosts = [
        HostSummary(testbed="office", role=role, name=name, addresses=addresses, facts={"kernel": "6.12"})
        for role, (name, addresses) in zip(("client", "server", "client2"), result.items(), strict=True)
    ]
    shown = Reader(page(summary_of(made.study()[:1], hosts=tuple(hosts))))
    heads = {"client: alpha (198.18.0.1, 2001:2::1)", "server (198.18.0.2)", "client2"}
    assert heads <= set(shown.of("th", scope="col"))


def test_each_role_has_its_facts_and_one_machine_is_named(factory):
    hosts = tuple(HostSummary(testbed="lab", role=role, facts={"kernel": "6.12"}) for role in ("client", "server"))
    record = dataclasses.replace(factory.application("smtp", 10, "ipv6", 1.0), testbed="lab", one_machine=True)
    (output,) = Reader(page(summary_of([record], hosts=hosts))).of("section", id="environment")
    assert "Hosts of testbed lab, all on one machine client server kernel 6.12 6.12" in output
    (apart,) = Reader(page(summary_of([dataclasses.replace(record, one_machine=False)], hosts=hosts))).of(
        "section", id="environment"
    )
    assert "Hosts of testbed lab client server" in apart


def test_the_method_of_flows_and_of_one_epoch_is_told_as_it_is(made):
    flows = [made.record("udp", "loss", "ipv6", [0.02] * 10, [0.01] * 10, epochs=1, blocks=10, levels={"rate": 1e7})]
    (method,) = Reader(page(summary_of(flows))).of("section", id="method")
    assert "Change of the means, without an interval" in method
    assert "1 epoch of 10 blocks, so 10 runs of each arm of 1 s after 500 ms" in method
    assert "Failures" not in method
    assert "RFC 7680, section 4.1" in method


# --- what comes from a record -----------------------------------------------------------------------------------------


def everywhere(factory, night, text):
    """Return a summary that has the text wherever a text can be."""
    records = [
        dataclasses.replace(
            factory.application("smtp", count, "ipv6", 1.0), cell=f"{text}-{count}-ipv6", testbed=text, server=text,
            sentence=text, margin=text, backend=text, client=text, taken_from=text, design=text, nodeid=text,
            verdict="invalid",
        )
        for count in (1, 10)
    ]  # fmt: skip
    return dataclasses.replace(
        summary_of(records), name=text, saved=text, notes=(text,), folder=Path("/r") / text.replace("/", ""),
        question={"arguments": [text], "pytest": text}, troubles=(Trouble(nodeid=text, kind=text, sentence=text),),
        hosts=(
            HostSummary(
                testbed=text, role=text, name=f"{text}.", addresses=(text,), facts={text: text, "deep": {text: [text]}}
            ),
        ),
        samples={(records[0].workload, side.arm): [0.1, 0.2] for side in (records[0].test, records[0].reference)},
        histories={each.key: factory.past_of(factory.application("smtp", 10, "ipv6", 1.0), 12) for each in records},
        night=dataclasses.replace(
            night.night, headline=f"red: {text}", troubles={text: text}, warnings=(text,),
            cells=tuple(
                dataclasses.replace(cell, sentence=text, key=HistoryKey(text, cell.key.metric))
                for cell in night.night.cells
            ),
        ),
    )  # fmt: skip


def test_nothing_that_a_record_says_becomes_a_part_of_the_page(factory, night):
    shown = Reader(page(everywhere(factory, night, EVIL)))
    assert not {"script", "img"} & {tag for tag, _ in shown.seen}
    assert not [name for _, attributes in shown.seen for name in attributes if name.startswith("on")]
    assert "<script>alert(1)</script>" in shown.of("body")[0]
    names = shown.values("id")
    assert len(names) == len(set(names))
    assert not [name for name in names if re.search(r"[\s<>\"&]", name)]


def test_a_command_line_that_is_no_utf_8_has_a_page(factory, night, tmp_path):
    """Python reads such bytes as lone surrogates, which UTF-8 cannot encode."""
    odd = everywhere(factory, night, "b\udce4r")
    write(odd, tmp_path / "page.html")
    assert (tmp_path / "page.html").read_bytes() == encoded(page(odd)) == FORMATS["html"].render(odd)
    told_ = Reader((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert "pytest 'b?r'" in told_.of("section", id="environment")[0]


def test_a_page_that_cannot_be_written_leaves_the_one_before(factory, tmp_path, monkeypatch):
    path = tmp_path / "page.html"
    path.write_text("before")

    def full(part, data):
        with part.open("wb") as half:
            half.write(data[:9])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        write(summary_of([factory.application("smtp", 10, "ipv6", 1.0)]), path)
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == {"page.html": "before"}


@given(st.text(), st.text())
def test_texts_and_attributes_are_read_back_as_they_were(text, value):
    shown = Reader(element("p", text, title=value))
    assert "".join(shown.texts) == text.replace("\r\n", "\n").replace("\r", "\n") or "".join(shown.texts) == text
    assert shown.values("title") == [value]


@given(
    st.tuples(st.text(), st.sampled_from(["loss", "jitter"])), st.tuples(st.text(), st.sampled_from(["loss", "rtt"]))
)
def test_different_cells_have_different_names_that_may_stand_in_a_link(one, other):
    names = {anchor(HistoryKey(*one)), anchor(HistoryKey(*other))}
    assert len(names) == len({one, other})
    assert all(re.fullmatch(r"[A-Za-z0-9._~-]+", name) for name in names)


def test_lines_of_a_terminal_are_whole_texts_again():
    assert paragraphs(["One line", "  goes on.", "Two.", "", "Three"]) == ["One line goes on.", "Two.", "Three"]


# --- figures ----------------------------------------------------------------------------------------------------------


def test_plots_have_text_as_text_units_on_both_axes_and_their_numbers_as_a_table(shown, text):
    plots = re.findall(
        r'<div class="plot [^"]*" role="img" aria-label="([^"]*)">(.*?</svg>(?:<div .*?</div>)?)</div>', text
    )
    assert len(shown.of("figure")) == len(shown.of("figcaption")) > 10
    assert len(plots) > len(shown.of("figcaption"))
    for label, inner in plots:
        root = ET.fromstring(f"<div>{inner}</div>")
        assert len(label) > 20
        assert re.search(r", (ms|us|%)", "".join(root.itertext()))
        assert len([part for part in root.iter("text") if part.text]) > 4, "ticks of both axes"
    figure = shown.of("section", id="levels")[0]
    assert "The figures as a table" in figure
    assert "Below: mean of 30 runs for each arm, with 95 % t intervals over the epochs' means." in figure
    assert "Above: change against IPv4 with the 90 % interval that decides" in figure


def test_failures_of_an_arm_are_told_where_its_curve_ends_below_all(shown):
    (failed,) = [each for each in shown.of("figure") if "with failures" in each]
    assert "HTTP at 1 connection: distribution of response times" in failed
    assert re.search(r"IPv6 612 98\.04 %", failed)
    assert "never" in failed


def test_more_than_can_be_drawn_is_counted_and_where_it_is(factory):
    records = [factory.application("smtp", count, "ipv6", 1.0) for count in range(1, 16)]
    text = page(summary_of(records, samples=factory.samples_of(records)))
    assert "3 more are not drawn here; the samples lie in /r/20261122T010000Z-5eed00." in text


def test_of_many_lines_those_with_the_worst_answers_are_drawn(factory):
    """In their usual order, whichever was first."""
    records = [
        dataclasses.replace(factory.application("smtp", count, "ipv6", 1.0), server=f"s{at:02d}", verdict=verdict)
        for at, verdict in enumerate(["within"] * 24 + ["inconclusive", "exceeds"])
        for count in (1, 10)
    ]
    captions = [each for each in Reader(page(summary_of(records))).of("figcaption") if "server " in each]
    drawn = [each.partition("server ")[2][:3] for each in captions]
    assert drawn == [f"s{at:02d}" for at in (*range(22), 24, 25)]


def test_of_a_night_it_is_said_which_data_are_shown(shown, night):
    headings = shown.of("h2")
    for each in (
        "Tables (screening)",
        "By connections and other levels (screening)",
        "Tails and distributions (screening)",
    ):
        assert each in headings
    for cell in night.night.cells:
        (row,) = shown.of("details", id=anchor(cell.key))
        assert (", fresh epochs" in row) == (cell.fresh is not None)
        assert (", screening" in row) == (cell.fresh is None and cell.screen is not None)


def test_the_same_story_gives_the_same_bytes_and_they_can_be_written(factory, tmp_path):
    records = [factory.application("smtp", count, "ipv6", 1.0) for count in (1, 10)]
    summary = summary_of(
        records, samples=factory.samples_of(records), histories={records[0].key: factory.past_of(records[0], 12)}
    )
    write(summary, tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == page(summary)


@pytest.mark.host
def test_what_draws_is_loaded_only_where_there_is_something_to_draw():
    code = "import sys, pytest_ipperf.report.page; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


# --- its documentation ------------------------------------------------------------------------------------------------

DOCS = (Path(__file__).parents[3] / "docs" / "page.md").read_text(encoding="utf-8")


def test_the_page_is_written_as_its_documentation_shows(tmp_path, monkeypatch):
    (code,) = re.findall(r"^```python\n(.*?)^```$", DOCS, re.DOTALL | re.MULTILINE)
    (folder,) = re.findall(r'Path\("(.ipperf/\S+)"\)', code)
    journal = EventLog(tmp_path / folder, "main")
    journal.append("session", facts(1))
    journal.close()
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    shown = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "no cell measured; go on with --ipperf-resume=" in shown
    assert "Nothing was measured" not in shown


def test_the_documentation_tells_how_much_is_drawn_and_how_a_cell_is_called():
    counts = f"{document._LEVELS} figures by levels, {document._SPREADS} distributions and {history._TRENDS} trends"
    assert counts in DOCS
    assert f"page.html#{anchor(HistoryKey('lab.100mbit-smtp-c10-1k-ipv6', 'response_time'))}" in DOCS
    assert markup.policy("").partition(";")[0] in DOCS


def calls_of(records):
    """Return how many functions a page of these records calls."""
    calls = [0]

    def count(_frame, event, _argument):
        calls[0] += event == "call"

    made = summary_of(records)
    sys.setprofile(count)
    try:
        page(made)
    finally:
        sys.setprofile(None)
    return calls[0]


def test_the_work_of_a_page_grows_with_its_cells_and_not_with_their_square(factory):
    records = [found(factory, ("smtp", count, "ipv6"), (1.0, -0.5, 2.5), "within") for count in range(1, 241)]
    calls_of(records[:80])  # what is cached once
    few, thrice = (calls_of(records[:number]) for number in (80, 240))
    assert thrice < 3.5 * few
