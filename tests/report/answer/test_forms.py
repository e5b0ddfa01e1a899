"""The one sentence of each form of a session: right, and the same on the page, in the terminal and in Markdown."""

import re

import pytest

from pytest_ipperf.report.formats import FORMATS
from pytest_ipperf.report.page import page
from pytest_ipperf.report.terminal.verdict_lines import answer_lines
from tests.report.forms import forms

BOTH = "IPv6 and IPv6 tunnel are as fast as IPv4 for HTTP and SMTP"
BEYOND = "HTTP at 100 connections, IPv6: 62.0 instead of 50.3 ms (+23.0 %, allowed 10 %)"
WORST = "HTTP at 9 connections, IPv6 isatap: 11.4 instead of 9.32 ms (+21.8 %, allowed 10 %)"
ALL = "IPv6, IPv6 tunnel and IPv6 isatap are as"
LONGEST = 215
"""Number of characters of a sentence that still reads at one glance: three lines of a heading."""
SENTENCES = {
    "everyday": ("within", f"{BOTH}: all 8 cells are within their margin."),
    "red": (
        "exceeds",
        f"{BOTH} in 8 of 11 cells, except {BEYOND}; 1 inconclusive, 1 invalid; 1 test has no answer.",
    ),
    "many": ("exceeds", f"{ALL} fast as IPv4 for HTTP and SMTP, except {WORST} and 2 other cells."),
    "smoke": (
        "unjudged",
        (
            "IPv6 and IPv6 tunnel against IPv4, measured without a verdict: the largest change is SMTP at 1 "
            "connection, IPv6 tunnel: 5.10 instead of 5.01 ms (+1.8 %)."
        ),
    ),
    "routers": ("within", f"{ALL} good as IPv4 for RTT, TCP and UDP: all 54 cells are within their margin."),
    "single": (
        "within",
        "IPv6 is as fast as IPv4 for HTTP, within its margin: 1.99 instead of 2.00 ms (-0.93 %, allowed 25 %).",
    ),
    "trouble": ("trouble", f"{BOTH}: all 8 cells are within their margin; 2 tests have no answer."),
    "undecided": ("inconclusive", f"{BOTH} in 8 of 9 cells; 1 inconclusive."),
    "empty": ("trouble", "Nothing was measured; 1 test has no answer."),
}
BROKEN_OFF = "BROKEN OFF: 8 of 12 cells measured; go on with --ipperf-resume=last"
NIGHT = "red: 1 of 19 cells is beyond the margin, confirmed in fresh epochs"


@pytest.fixture(scope="module")
def sessions(factory, made):
    return forms(factory, made)


def plain(html):
    return " ".join(re.sub(r"<[^>]*>", " ", html).replace("\N{NO-BREAK SPACE}", " ").split())


def head(summary):
    """Return the title of a page's window, and the texts of its banner's word and heading."""
    html = page(summary)
    found = re.search(
        r'<title>(?P<title>.*?)</title>.*?<div class="banner(?P<banner>.*?)</div>', html, re.DOTALL
    )  # fmt: skip
    assert found
    (word,) = re.findall('class="light">.*?</i>([^<]*)<', found["banner"])
    (heading,) = re.findall("<h1>(.*?)</h1>", found["banner"])
    return plain(found["title"]), plain(word), plain(heading)


def first_lines(summary):
    """Return the first line of the terminal's answer, and the first of Markdown that is set in bold."""
    markdown = FORMATS["markdown"].render(summary).decode()
    bold = re.findall(r"^\*\*(.*)\*\*$", markdown, re.MULTILINE)
    return answer_lines(summary)[0].text, bold[0].replace("\\", "")


@pytest.mark.parametrize("form", SENTENCES)
def test_every_form_says_its_one_sentence_everywhere(sessions, form):
    word, sentence = SENTENCES[form]
    title, shown, heading = head(sessions[form])
    assert (shown, heading) == (word, sentence)
    assert title == f"{sentence} - pytest-ipperf {sessions[form].name}"
    assert len(sentence) <= LONGEST
    terminal, markdown = first_lines(sessions[form])
    assert markdown == sentence
    if sessions[form].records:
        assert terminal == sentence
    else:
        assert terminal.startswith("Nothing was measured; 1 in trouble")


def test_a_session_that_was_broken_off_says_so_before_anything_else(sessions):
    title, word, heading = head(sessions["broken off"])
    assert title.startswith(BROKEN_OFF)
    assert f"{word}: {heading}" == BROKEN_OFF
    assert first_lines(sessions["broken off"]) == (BROKEN_OFF, BROKEN_OFF)


def test_a_night_says_its_decision_everywhere(sessions):
    title, word, heading = head(sessions["night"])
    said, figures = heading.replace("▲ red", "red:", 1).replace("\N{NO-BREAK SPACE}", " ").split("epochs: ")
    assert f"{said}epochs" == NIGHT
    assert figures.startswith("HTTP at 100 connections, IPv6: ")
    assert word == "red"
    assert all(text.startswith(NIGHT) for text in (title, *first_lines(sessions["night"])))


def test_every_form_has_its_sentence_here(sessions):
    assert {*sessions} == {*SENTENCES, "broken off", "night"}
