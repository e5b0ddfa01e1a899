"""The page and the figures of the router study: well-formed, complete, self-contained and legible."""

import dataclasses
import itertools
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest

from pytest_ipperf import __version__
from pytest_ipperf.report import plot_style
from pytest_ipperf.report.flow.curves import bars
from pytest_ipperf.report.page.tables.table_v import study_page
from pytest_ipperf.report.studies.router import plots
from pytest_ipperf.report.studies.router.grades import GRADES
from pytest_ipperf.report.studies.router.plots import curves
from pytest_ipperf.report.studies.router.style import COLOURS, class_of
from pytest_ipperf.report.studies.router.summary import summaries
from pytest_ipperf.report.table_files import write_router_study
from tests.report.page.contrast import contrast

EMPTY = {"meta", "path", "use", "br"}
MADE_AT = datetime(2026, 11, 22, 0, 30, tzinfo=UTC)
SVG = "{http://www.w3.org/2000/svg}"


class Reader(HTMLParser):
    """A parser that checks that each tag is closed in its place, and collects attributes and texts by class."""

    def __init__(self):
        super().__init__()
        self.open: list[tuple[str, dict[str, str | None]]] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.seen: list[str] = []
        self.cells: list[tuple[str, str]] = []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.attributes += [(tag, *each) for each in attrs]
        if tag not in EMPTY:
            self.open.append((tag, dict(attrs)))

    def handle_startendtag(self, tag, attrs):
        self.seen.append(tag)
        self.attributes += [(tag, *each) for each in attrs]

    def handle_endtag(self, tag):
        if tag not in EMPTY:
            assert self.open.pop()[0] == tag

    def handle_data(self, data):
        for tag, attributes in self.open[::-1]:
            if tag in {"td", "div", "li"}:
                self.cells.append((attributes.get("class") or "", data.strip()))
                break


def read(text):
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader


@pytest.fixture
def two(made):
    """The fewest records that make a table and a figure."""
    sizes = [made.record("rtt", "rtt", "ipv6", [1.0, 2.0], [1.0, 1.1], payload_bytes=size) for size in (64, 128)]
    return [*sizes, made.record("udp", "jitter", "ipv6", [1.0, 2.0], [1.0, 1.2])]


@pytest.fixture(scope="module")
def written(made, tmp_path_factory):
    """The folder of a session that measured the whole study."""
    folder = tmp_path_factory.mktemp("tables")
    write_router_study(made.study(), folder, MADE_AT)
    return folder


@pytest.fixture(scope="module")
def text(written):
    return (written / "router.html").read_text()


def test_all_files_are_there(written):
    names = {f"figure-{number}.{kind}" for number in range(4, 10) for kind in ("png", "svg")}
    assert {path.name for path in written.iterdir()} == names | {"table-V.txt", "table-V.csv", "router.html"}


def test_the_page_is_well_formed_and_each_name_is_there_once(text):
    reader = read(text)
    names = [value for _, name, value in reader.attributes if name == "id"]
    assert len(names) == len(set(names)) > 0
    used = re.findall(r'(?:href="#|url\(#)([^")]+)', text)
    assert used
    assert set(used) <= set(names)


def test_the_page_loads_nothing_and_runs_nothing(text):
    reader = read(text)
    assert not {"script", "link", "img", "iframe", "object", "embed"} & set(reader.seen)
    assert not [each for each in reader.attributes if each[1].startswith("on")]
    assert not re.findall(r"https?:|//|@import|url\((?!#)", text)


def test_tables_have_captions_and_their_heads_a_scope(text):
    reader = read(text)
    assert reader.seen.count("table") == reader.seen.count("caption") == 7
    scopes = [value for tag, name, value in reader.attributes if (tag, name) == ("th", "scope")]
    assert len(scopes) == reader.seen.count("th")
    assert set(scopes) == {"row", "col"}


def test_every_coloured_cell_says_its_grade_in_words(text):
    words = {class_of(grade.colour): grade.name for grade in GRADES}
    coloured: dict[str, list[str]] = {}
    for name, data in read(text).cells:
        for each in set(name.split()) & set(words):
            coloured.setdefault(each, []).append(data)
    assert set(coloured) == set(words)
    body = text[text.index("<tbody>") : text.index("</tbody>")]
    for name, word in words.items():
        for cell in re.findall(rf'<(?:td|div) class="(?:band )?{name}">(.*?)</(?:td|div)>', body):
            assert word in cell


def test_a_cell_between_two_grades_shows_both(made):
    wide = [made.record("udp", "jitter", "ipv6", [1.1, 1.2, 1.2], [1.0, 1.0, 1.0])]
    sure = [made.record("rtt", "rtt", "ipv6", [1.2, 1.21, 1.22], [1.0, 1.0, 1.0])]
    (summary,) = summaries(wide + sure)
    assert str(summary.ratios["jitter", summary.arms[1]].graded) == "excellent to very good"
    shown = study_page([(summary, [])])
    assert '<div class="band dark-green">excellent</div><div class="band green">very good</div>' in shown


def test_each_experiment_has_formula_unit_and_source(text):
    for source in ("RFC 6349", "RFC 3550, section 6.4.1", "RFC 2681", "RFC 7680"):
        assert source in text
    assert "In bit/s." in text
    assert "In s." in text


def test_the_page_tells_when_and_how_it_was_made(text):
    how = "design quick, 12 runs of 1 s for each arm of a cell, seed 7"
    assert f"<p>2026-11-22 00:30 UTC, pytest-ipperf {__version__}; {how}.</p>" in text


def test_what_the_study_has_not_is_said_to_be_no_part_of_it(text):
    assert text.count('<span class="soft">not in the study</span>') == 5  # the configured tunnel, in every column
    assert "not measured" not in text


def test_a_design_of_epochs_that_never_judges_has_ratios_alone_and_says_so(made, tmp_path):
    records = [dataclasses.replace(each, design="smoke", judges=False) for each in made.study(epochs=2, blocks=1)]
    write_router_study(records, tmp_path, MADE_AT)
    text = (tmp_path / "router.html").read_text()
    read(text)
    assert "design smoke (never judges), 2 runs of 1 s" in text
    assert "<li>Design smoke never judges: no intervals, no grades.</li>" in text
    assert "<td><b>100 %</b></td>" in text
    assert 'class="band ' not in text
    assert "% intervals" not in text
    assert not re.findall(r"<small>\[", text)
    assert "Mean of 2 runs, without intervals; testbed" in text
    dots = [dot for each in curves(summaries(records)[0]) for own in each.curves for dot in own.points]
    assert {dot.interval for dot in dots} == {None}


def test_texts_can_be_read_on_their_grades_and_curves_on_light_and_dark_pages():
    assert {grade.colour for grade in GRADES} == set(COLOURS)
    assert all(contrast(ground, ink) >= 4.5 for ground, ink in COLOURS.values())
    for colour, *_ in plot_style.STYLES.values():
        assert contrast(colour, "#ffffff") >= 3
        assert contrast(colour, "#202020") >= 3


def test_curves_differ_in_marker_and_line_too():
    for at in range(3):
        assert len({style[at] for style in plot_style.STYLES.values()}) == len(plot_style.STYLES)


@pytest.mark.parametrize("number", range(4, 10))
def test_a_figure_has_a_curve_with_error_bars_for_each_arm_units_and_a_title(written, number, made):
    text = (written / f"figure-{number}.svg").read_text()
    root = ET.fromstring(text)
    said = " ".join("".join(each.itertext()) for each in root.iter(f"{SVG}text"))
    assert f"(paper 001, Fig. {number}, again)" in said
    assert {"IPv4", "IPv6", "IPv6 isatap", "IPv6 tunnel"} <= set(re.split(r"(?<=\S) (?=IPv)", said)) | set(said.split())
    assert re.search(r" in (Mbit/s|ms|us|%)", said)
    # matplotlib calls the bars of an errorbar a LineCollection: one for each arm, and one for each in the legend.
    bars = [each for each in root.iter(f"{SVG}g") if (each.get("id") or "").startswith("LineCollection")]
    assert len(bars) == 8
    drawn = (written / f"figure-{number}.png").read_bytes()
    assert drawn.startswith(b"\x89PNG\r\n\x1a\n")
    assert int.from_bytes(drawn[16:20], "big") > 1000


def test_the_same_runs_give_the_same_files(two, tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        write_router_study(two, tmp_path / name, MADE_AT)
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert "figure-6.png" in names
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_bars_are_the_t_intervals_of_the_run_values(made):
    records = [
        made.record("rtt", "rtt", "ipv6", [1.0, 2.0, 3.0], [1.0, 1.0, 1.0], payload_bytes=size) for size in (64, 128)
    ]
    jitter = made.record("udp", "jitter", "ipv6", [1.0, 2.0, 3.0], [1.0, 1.0, 1.0])
    (summary,) = summaries([*records, jitter])
    (found,) = curves(summary)  # jitter has one level, which makes no curve
    curve = found.curves[1]
    dot = curve.points[0]
    assert (curve.arm, dot.side.mean) == (summary.arms[1], 2.0)
    assert dot.interval is not None
    assert dot.interval.high - dot.side.mean == pytest.approx(4.3027 / 3**0.5, rel=1e-4)  # t(.975, 2) standard errors
    bare = dataclasses.replace(curve, points=(dataclasses.replace(dot, interval=None),))
    assert bars(bare, found.unit) == [(0.0,), (0.0,)]


@pytest.mark.parametrize("arms", range(1, 5))
def test_dots_stand_at_their_level_to_half_a_percent_of_the_axis(arms):
    shifts = plot_style.shifts([20.0, 60.0, 100.0], arms)
    assert len(set(shifts)) == arms
    assert max(abs(shift) for shift in shifts) <= 0.4
    assert sum(shifts) == pytest.approx(0)


@pytest.mark.parametrize(
    ("values", "sizes", "places"),
    [
        ((16384, 65536, 262144, "auto"), True, [14, 16, 18, 20]), ((1, 4, 8), False, [1, 4, 8]),
        ((64, 128), True, [64, 128]), (("auto", "flood"), False, [1, 2]),
    ],
)  # fmt: skip
def test_levels_stand_by_their_size(values, sizes, places):
    assert plot_style.places(values, sizes=sizes) == places


def test_several_testbeds_have_figures_of_their_own_and_one_page(two, tmp_path):
    elsewhere = [dataclasses.replace(each, testbed="lab", cell=f"{each.cell}-elsewhere") for each in two]
    write_router_study(two + elsewhere, tmp_path, MADE_AT)
    assert {"figure-6-lab-quick.png", "figure-6-lab.100mbit-quick.png"} <= {path.name for path in tmp_path.iterdir()}
    text = (tmp_path / "router.html").read_text()
    names = [value for _, name, value in read(text).attributes if name == "id"]
    assert len(names) == len(set(names))


def test_nothing_is_written_without_two_columns(made, tmp_path):
    write_router_study([made.record("rtt", "rtt", "ipv6", [1.0, 2.0], [1.0, 1.0])], tmp_path, MADE_AT)
    assert not list(tmp_path.iterdir())


@pytest.mark.host
def test_what_draws_is_loaded_only_where_there_is_something_to_draw():
    rooms = "pytest_ipperf.report.terminal.application_tables, pytest_ipperf.report.table_files"
    code = f"import sys, {rooms}; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_an_inline_figure_takes_the_pages_colours():
    inner = '<g id="a" fill="#111111"/>'
    lines = 'stroke-linejoin="round" stroke-linecap="butt"'
    svg = f'<?xml version="1.0"?>\n<svg xmlns="http://x" width="9pt" height="9pt" viewBox="0 0 9 9">{inner}</svg>'
    assert plot_style.inline(svg, "p-", "A & B") == (
        f'<svg role="img" aria-label="A &amp; B" {lines} viewBox="0 0 9 9"><g id="p-a" fill="currentColor"/></svg>'
    )


@pytest.mark.parametrize("font", ["font: 10px 'DejaVu Sans'", "font-size: 10px; font-family: 'DejaVu Sans'"])
def test_an_inline_figure_has_attributes_in_place_of_styles(font):
    text = f'<text style="{font}; text-anchor: end; fill: #111111" x="1">a style="b: c"</text>'
    shown = """<text font-size="10px" font-family="'DejaVu Sans'" text-anchor="end" fill="currentColor" x="1">"""
    if "font:" in font:
        shown = """<text text-anchor="end" fill="currentColor" font-size="10px" font-family="'DejaVu Sans'" x="1">"""
    assert f'{shown}a style="b: c"</text>' in plot_style.inline(f"<svg>{text}</svg>", "p-", "T")


def test_levels_too_many_for_their_names_stand_aslant(made):
    records = [
        made.record("rtt", "rtt", "ipv6", [1.0, 2.0], [1.0, 1.0], payload_bytes=2**power) for power in range(5, 15)
    ]
    jitter = made.record("udp", "jitter", "ipv6", [1.0, 2.0], [1.0, 1.0])
    (summary,) = summaries([*records, jitter])
    (drawn,) = plots.draw(summary)
    places = [float(x) for x in re.findall(r"translate\(([\d.]+) [\d.]+\) rotate\(-45\)", drawn.svg)]
    assert len(places) == 10
    assert all(after - before > 10 for before, after in itertools.pairwise(places))
