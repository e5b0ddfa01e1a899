"""The page in a real browser: it shows the figures of the records, loads nothing, and fits a phone."""

import base64
import dataclasses
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest

from pytest_ipperf.report.page import anchor, page
from pytest_ipperf.report.page.comparison_page import comparison_page
from pytest_ipperf.report.tables.cell_results import change_text
from tests.report.page.compared import compared
from tests.support.chromium import CHROMIUM, MISSING, Browser

pytestmark = pytest.mark.skipif(not CHROMIUM, reason=MISSING)
# Not in the page, which runs no scripts: elements wider than the page, except in scrollable boxes.
OVERFLOW = """(() => {
  const width = document.documentElement.clientWidth;
  const boxed = each => each.closest('.wide, .drawn, nav ul, svg');
  const out = [...document.body.querySelectorAll('*')].filter(
    each => !boxed(each.parentElement) && each.getBoundingClientRect().right > width + 0.5);
  return [innerWidth, document.documentElement.scrollWidth, out.map(each => each.outerHTML.slice(0, 80))];
})()"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("chromium")) as started:
        yield started


@pytest.fixture(scope="module")
def night(factory):
    return factory.night_summary()


@pytest.fixture(scope="module")
def url(night, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page(night), encoding="utf-8")
    return path.as_uri()


def test_an_opened_page_is_there(browser, tmp_path, server):
    """Also a slow one, while the blank page before it reports that it has loaded."""
    path = tmp_path / "late.html"
    path.write_text(f'<title>late</title><img src="{server.url}/slow.png"><p>all</p>')
    browser.open(path.as_uri())
    assert browser.evaluate("[document.readyState, document.title, document.body.innerText]") == [
        "complete", "late", "all",
    ]  # fmt: skip
    assert browser.evaluate("document.URL") == path.as_uri()
    assert server.asked == ["/slow.png"]


def words(text):
    return " ".join((text or "").split())


def test_the_page_shows_the_figures_of_the_records(browser, url, night):
    browser.open(url)
    assert words(browser.evaluate("document.querySelector('h1').innerText")).startswith("▲ RED 1 of 19 cells is beyond")
    rows = browser.evaluate(
        "Object.fromEntries([...document.querySelectorAll('.cell')].map(each => [each.id, each.textContent]))"
    )
    cells = {cell.key: cell.record for cell in night.night.cells if cell.record}
    shown = cells | {record.key: record for record in night.records if record.twin}
    assert len(rows) == len(shown) + 1  # and one that is missing
    for key, record in shown.items():
        row = words(rows[anchor(key)])
        assert key.cell in row
        assert change_text(record) in row
    tables = browser.evaluate("[...document.querySelectorAll('#tables .tables table')].map(each => each.innerText)")
    squares = browser.evaluate(
        "Object.fromEntries([...document.querySelectorAll('.square')].map(each => [each.hash, each.title]))"
    )
    for cell in night.night.cells:
        if cell.record:
            assert squares[f"#{anchor(cell.key)}"] == f"{cell.decision.value}: {change_text(cell.record)}"
    for record in night.records:
        (table,) = [words(each) for each in tables if each.startswith(record.protocol.upper())]
        assert change_text(record).partition(" %")[0] in table
        assert (
            f"{1000 * record.test.mean:.{2 if record.test.mean < 0.01 else 1 if record.test.mean < 0.1 else 0}f}"
            in table
        )


def test_a_link_to_a_cell_leads_to_it(browser, url, night):
    key = night.night.cells[3].key
    browser.open(f"{url}#{anchor(key)}")
    assert key.cell in browser.evaluate("document.querySelector(':target').textContent")
    assert browser.evaluate("document.querySelector(':target').getBoundingClientRect().height") > 0


def test_the_page_makes_no_request_and_has_nothing_to_complain_of(browser, url):
    browser.open(url)
    assert browser.requests == [url]
    assert browser.complaints == []


@pytest.fixture
def server():
    """A slow server at `url` that has no pages; `asked` are the requests that it got."""
    asked = []

    class Logging(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            if "slow" in self.path:
                time.sleep(0.5)
            self.send_error(404)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Logging) as listening:
        thread = threading.Thread(target=listening.serve_forever, args=(0.05,))
        thread.start()
        yield SimpleNamespace(url=f"http://127.0.0.1:{listening.server_port}", asked=asked)
        listening.shutdown()
        thread.join()


def test_a_request_would_be_noticed_and_what_a_page_should_not_hold_is_refused(browser, night, server, tmp_path):
    there = server.url
    loads = f'<img src="{there}/a.png"><link rel="stylesheet" href="{there}/b.css">'
    bare = tmp_path / "bare.html"
    bare.write_text(f"<title>bare</title>{loads}<script>console.error('loud')</script>")
    browser.open(bare.as_uri())
    assert {f"{there}/a.png", f"{there}/b.css"} <= set(browser.requests)
    assert "error" in browser.complaints
    assert sorted(server.asked) == ["/a.png", "/b.css"]
    held = tmp_path / "held.html"
    small = dataclasses.replace(night, samples={}, histories={})
    loads = loads.replace("/a.", "/c.").replace("/b.", "/d.")
    held.write_text(page(small).replace("</main>", f"{loads}<script>document.title = 'ran'</script></main>"))
    browser.open(held.as_uri())
    assert {each.get("blockedReason") for each in browser.events("Network.loadingFailed")} == {"csp"}
    assert sorted(server.asked) == ["/a.png", "/b.css"]
    assert browser.evaluate("document.title") != "ran"
    assert len([text for text in browser.complaints if "Content Security Policy" in text]) == 3


def test_nothing_is_wider_than_a_phone_but_what_scrolls_in_its_own_box(browser, url, night, made, tmp_path):
    long = dataclasses.replace(
        night, samples={}, histories={}, troubles=(), night=None, records=tuple(
            dataclasses.replace(each, server="x" * 300, cell=f"{'y' * 200}-{number}-{each.test.arm}")
            for number, each in enumerate(night.records)
        ),
    )  # fmt: skip
    flows = dataclasses.replace(night, samples={}, histories={}, night=None, records=tuple(made.study()))
    urls = [url]
    for name, summary in (("long", long), ("flows", flows)):
        path = tmp_path / f"{name}.html"
        path.write_text(page(summary), encoding="utf-8")
        urls.append(path.as_uri())
    for each in urls:
        browser.open(each, width=360)
        assert browser.evaluate(OVERFLOW) == [360, 360, []]
    wide = tmp_path / "wide.html"
    wide.write_text('<meta name="viewport" content="width=device-width"><body><div style="width: 900px">wide</div>')
    browser.open(wide.as_uri(), width=360)
    assert browser.evaluate(OVERFLOW)[1:] != [360, []]


def test_on_a_phone_every_cell_shows_its_change_and_stays_a_table(browser, url, night):
    browser.open(url, width=360)
    rows = browser.evaluate(
        "[...document.querySelectorAll('.cell > summary')].map(row => {"
        " const cell = row.querySelector('.changed'), box = cell.getBoundingClientRect();"
        " return [cell.innerText, box.width > 0 && box.left >= 0 && box.right <= innerWidth]; })"
    )
    assert len(rows) > len(night.night.cells)
    assert all(within for text, within in rows if text)
    assert {change_text(cell.record) for cell in night.night.cells if cell.record} <= {words(text) for text, _ in rows}


def test_plots_are_as_wide_as_the_page_and_their_text_stays_readable(browser, url):
    for width in (360, 1280):
        browser.open(url, width=width)
        sizes = browser.evaluate(
            "[...document.querySelectorAll('.card[open] .plot, .figures .plot')].map(plot => ["
            " plot.getBoundingClientRect().right <= innerWidth, plot.scrollWidth <= plot.clientWidth + 1,"
            " parseFloat(getComputedStyle(plot.querySelector('text')).fontSize)])"
        )
        assert len(sizes) > 10
        assert all(inside and not_scrolled and size >= 11 for inside, not_scrolled, size in sizes)


SHOWN = "[...document.querySelectorAll('.cell')].filter(each => each.offsetHeight).map(each => each.className)"


def press(browser, *names):
    """Press keys as a person at a keyboard does."""
    for name in names:
        code = {"Tab": 9, " ": 32}[name]
        more = {"text": " "} if name == " " else {}
        for kind in ("keyDown", "keyUp"):
            browser.call(
                "Input.dispatchKeyEvent", type=kind, key=name, code={" ": "Space"}.get(name, name),
                windowsVirtualKeyCode=code, **(more if kind == "keyDown" else {}),
            )  # fmt: skip


def focused(browser):
    return browser.evaluate("(document.activeElement.closest('label') || document.activeElement).innerText.trim()")


def test_cells_are_filtered_by_keyboard_alone(browser, url, night):
    browser.open(url)
    every = browser.evaluate(SHOWN)
    assert len(every) > len(night.night.cells)
    browser.evaluate("document.querySelector('#cells a, #cells input').focus()")
    assert focused(browser) == "exceeds, confirmed"
    for _ in range(12):
        if focused(browser) == "within":
            break
        press(browser, "Tab")
    assert focused(browser) == "within"
    press(browser, " ")
    left = browser.evaluate(SHOWN)
    assert 0 < len(left) < len(every)
    texts = browser.evaluate(
        "[...document.querySelectorAll('.cell')].filter(each => each.offsetHeight)"
        ".map(each => each.querySelector('.badge').innerText)"
    )
    assert not [text for text in texts if "within" in text]
    for _ in range(12):
        if focused(browser) == "HTTP":
            break
        press(browser, "Tab")
    press(browser, " ")
    names = browser.evaluate(
        "[...document.querySelectorAll('.cell')].filter(each => each.offsetHeight)"
        ".map(each => each.querySelector('.what').innerText)"
    )
    assert names
    assert not [name for name in names if name.startswith("HTTP")]
    press(browser, " ")
    assert browser.evaluate(SHOWN) == left


def test_cells_of_two_sessions_are_filtered_by_keyboard_alone(browser, tmp_path):
    path = tmp_path / "compared.html"
    path.write_text(comparison_page(compared(), "A", "B", {}), encoding="utf-8")
    browser.open(path.as_uri())
    assert len(browser.evaluate(SHOWN)) == 4
    browser.evaluate("document.querySelector('#cells input').focus()")
    for name, left in (("exceeds", 3), ("better", 2), ("inconclusive", 1)):
        assert focused(browser) == name
        press(browser, " ", "Tab")
        assert len(browser.evaluate(SHOWN)) == left
    assert browser.complaints == []


def test_a_line_of_a_cell_opens_by_keyboard_to_its_sentence(browser, url, night):
    browser.open(url)
    cell = next(cell for cell in night.night.cells if cell.record)
    row = f"document.getElementById({anchor(cell.key)!r})"
    browser.evaluate(f"{row}.querySelector('summary').focus()")
    assert not browser.evaluate(f"{row}.open")
    press(browser, " ")
    assert browser.evaluate(f"{row}.open")
    assert cell.sentence[1:] in browser.evaluate(f"{row}.querySelector('.proof').innerText")


def test_one_figure_alone_is_no_larger_than_one_of_many(browser, factory, tmp_path):
    records = [factory.application("smtp", count, "ipv6", 1.0) for count in (1, 10)]
    path = tmp_path / "one.html"
    summary = dataclasses.replace(factory.night_summary(), night=None, records=tuple(records), samples={}, histories={})
    path.write_text(page(summary), encoding="utf-8")
    browser.open(path.as_uri())
    assert browser.evaluate(
        "[...document.querySelectorAll('#levels figure')].map(each => each.getBoundingClientRect().width)"
    ) == [736]


def test_the_page_is_light_or_dark_as_the_reader_likes_it_and_its_plots_too(browser, url):
    colours = (
        "['body', 'figure .plot .mean'].flatMap(name => {"
        " const style = getComputedStyle(document.querySelector(name)); return [style.color, style.backgroundColor]; })"
    )
    brightness = {}
    for scheme in ("light", "dark"):
        browser.open(url, scheme=scheme)
        found = [sum(map(int, re.findall(r"\d+", text)[:3])) for text in browser.evaluate(colours)]
        brightness[scheme] = found
    ink, ground, drawn, _ = zip(brightness["light"], brightness["dark"], strict=True)
    assert max(ink[0], ground[1]) < 150
    assert min(ink[1], ground[0]) > 600
    assert drawn[0] + 60 < drawn[1], "curves have a palette of their own on a dark page"


def test_the_page_can_be_printed(browser, url):
    browser.open(url)
    printed = base64.b64decode(browser.call("Page.printToPDF")["data"])
    assert printed.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) > 3
