"""Every form of the page can be used by everybody, as far as axe-core finds out, in a real browser under its policy.

One browser opens all pages; each is checked with everything unfolded, most also as in the dark and on a phone.
"""

import pytest

from pytest_ipperf.report.page import page
from pytest_ipperf.report.page.comparison_page import comparison_page
from pytest_ipperf.report.page.tables.table_v import study_page
from pytest_ipperf.report.studies.router import plots
from pytest_ipperf.report.studies.router.summary import summaries
from tests.report.forms import forms
from tests.report.page.compared import compared
from tests.support import axe
from tests.support.chromium import CHROMIUM, MISSING, Browser

pytestmark = [
    pytest.mark.skipif(not CHROMIUM, reason=MISSING),
    pytest.mark.skipif(bool(axe.MISSING), reason=axe.MISSING),
]
FORMS = ("everyday", "red", "night", "many", "broken off", "smoke", "routers", "single", "comparison", "study")
IN_ALL = ("red", "night", "routers", "comparison")
"""Forms with all elements of the others, which are checked in other colours and on a phone too."""
UNFOLD = "document.querySelectorAll('details').forEach(each => { each.open = true; })"
LOADED = "[...document.styleSheets].map(each => each.cssRules.length > 100)"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("chromium")) as started:
        yield started


@pytest.fixture(scope="module")
def url(factory, made, tmp_path_factory):
    """Function that writes the page of a form, once, and returns its address."""
    folder, sessions = tmp_path_factory.mktemp("pages"), forms(factory, made)

    def text(form):
        if form == "comparison":
            return comparison_page(compared(), "A", "B", {"A": "", "B": "BROKEN OFF: 6 of 12 cells measured"})
        if form == "study":
            return study_page((each, plots.draw(each)) for each in summaries(sessions["routers"].records))
        return page(sessions[form])

    def write(form):
        path = folder / f"{form}.html"
        if not path.exists():
            path.write_text(text(form), encoding="utf-8")
        return path.as_uri()

    return write


@pytest.mark.parametrize("form", FORMS)
def test_no_form_of_the_page_violates_a_rule_or_its_policy(browser, url, form):
    browser.open(url(form))
    assert browser.evaluate(LOADED) == [True], "the policy lets the page's own style pass"
    assert browser.complaints == []
    browser.evaluate(UNFOLD)
    assert axe.violations(browser) == []


@pytest.mark.parametrize("form", IN_ALL)
def test_pages_can_be_read_in_the_dark(browser, url, form):
    browser.open(url(form), scheme="dark")
    assert axe.violations(browser, colours_only=True) == []


@pytest.mark.parametrize("form", IN_ALL)
def test_pages_can_be_used_on_a_phone(browser, url, form):
    browser.open(url(form), width=360)
    assert browser.evaluate("document.documentElement.scrollWidth") == 360
    assert axe.violations(browser) == []


def test_a_violation_would_be_noticed(browser, tmp_path):
    path = tmp_path / "bad.html"
    path.write_text(
        "<!DOCTYPE html><html lang=en><title>bad</title><main><h1>Bad</h1><img src='data:,'>"
        "<p style='color: #888; background: #999'>hardly to be read</p></main>"
    )
    browser.open(path.as_uri())
    assert [each.partition(" ")[0] for each in axe.violations(browser)] == ["color-contrast", "image-alt"]
    assert [each.partition(" ")[0] for each in axe.violations(browser, colours_only=True)] == ["color-contrast"]


def test_styles_that_are_not_the_pages_own_are_refused_and_reported(browser, url, tmp_path):
    path = tmp_path / "styled.html"
    address = url("single")
    browser.open(address)
    html = browser.evaluate("document.documentElement.outerHTML")
    planted = "<p id='planted' style='display: none'>shown</p><style>#planted { display: none }</style></main>"
    path.write_text(f"<!DOCTYPE html>{html.replace('</main>', planted)}", encoding="utf-8")
    browser.open(path.as_uri())
    assert browser.evaluate("document.getElementById('planted').getBoundingClientRect().height") > 0
    assert len([text for text in browser.complaints if "style-src" in text]) == 2
