"""`pytest-ipperf open`: the page of a session, or of the night that it screened."""

from __future__ import annotations

import webbrowser

import pytest

from tests.store.kept import keep, name_of, record


@pytest.fixture
def opened(monkeypatch):
    """The addresses that a browser was asked to open."""
    found = []

    def open_(address):
        found.append(address)
        return True

    monkeypatch.setattr(webbrowser, "open", open_)
    return found


def test_the_last_session_is_opened_and_gets_its_page_if_it_was_killed(program, tmp_path, opened):
    folder = keep(tmp_path / ".ipperf", 0, [record(1)], status=None)
    status, lines, said = program(tmp_path / ".ipperf", "open")
    assert (status, said, lines) == (0, "", [str(folder / "report.html")])
    assert opened == [(folder / "report.html").as_uri()]
    assert "BROKEN OFF" in (folder / "report.html").read_text(encoding="utf-8")


def test_the_page_of_the_night_has_the_decisions(program, tmp_path, opened):
    root = tmp_path / ".ipperf"
    folder = keep(root, 0, [record(1)])
    (folder / "report.html").write_text("session")
    night = root / "nights" / name_of(0) / "report.html"
    night.parent.mkdir(parents=True)
    night.write_text("night")
    assert program(root, "open", "last", "--print")[1] == [str(night)]
    assert opened == []


def test_where_no_browser_is_the_path_suffices(program, tmp_path, monkeypatch):
    monkeypatch.setattr(webbrowser, "open", lambda _: False)
    folder = keep(tmp_path / ".ipperf", 0, [record(1)])
    (folder / "report.html").write_text("session")
    status, lines, said = program(tmp_path / ".ipperf", "open", name_of(0))
    assert (status, lines) == (0, [str(folder / "report.html")])
    assert said == "pytest-ipperf: there is no browser here; open the file above in one\n"
    assert program(tmp_path / ".ipperf", "open", "nothing")[0] == 4
