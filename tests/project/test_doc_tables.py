"""Tables and lists of the documentation that name things of the code name all of them, and no others."""

import argparse
import ast
import re

import pytest

from pytest_ipperf.agent.flows.engines import ENGINES
from pytest_ipperf.agent.tunnels.backends import BACKENDS
from pytest_ipperf.cli.commands import COMMANDS
from pytest_ipperf.core.design.design import DESIGNS
from pytest_ipperf.lab.access import ACCESS_METHODS
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.protocols import PROTOCOLS, application, applications
from pytest_ipperf.report.formats import FORMATS
from pytest_ipperf.servers import SERVERS
from pytest_ipperf.transports import TRANSPORTS
from tests.project.pages import TOP, codes, names, page, table


def options_of(command):
    parser = argparse.ArgumentParser(add_help=False)
    command.arguments(parser)
    return [action.option_strings for action in parser._actions if action.option_strings]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_is_told_on_some_page(name):
    text = "".join(path.read_text(encoding="utf-8") for path in [TOP / "README.md", *(TOP / "docs").glob("*.md")])
    for known in options_of(COMMANDS[name]):
        assert [each for each in known if re.search(rf"(?<![\w-]){re.escape(each)}(?![\w-])", text)], known


def test_the_options_of_accept_and_night_are_those_of_the_code():
    told = {option for row in table("docs/history.md", "option") for code in codes(row[0]) for option in words(code)}
    known = {each[0] for each in options_of(COMMANDS["accept"])}
    assert told == known - {"--reason", "--session", "--ipperf-records"}  # told in the text
    nightly = {option for row in table("docs/night.md", "option") for code in codes(row[0]) for option in words(code)}
    assert {each[0] for each in options_of(COMMANDS["night"])} <= nightly


def words(code):
    return re.findall(r"--[\w-]+", code)


def test_commands_that_pages_call_are_there():
    for path in [TOP / "README.md", *(TOP / "docs").glob("*.md")]:
        called = set(re.findall(r"`pytest-ipperf ([a-z]+)", path.read_text(encoding="utf-8")))
        assert called <= set(COMMANDS), path


def test_backends_are_those_of_the_code():
    assert sorted(names("docs/tunnels.md", "backend", "packets are made by")) == list(BACKENDS)


def test_formats_and_their_suffixes_are_those_of_the_code():
    assert {codes(row[0])[0]: codes(row[1])[0] for row in table("docs/formats.md", "format", "suffix")} == {
        name: each.suffix for name, each in FORMATS.items()
    }


def test_library_clients_are_those_of_the_code():
    rows = {row[0]: row for row in table("docs/library.md", "protocol", "library")}
    assert list(rows) == [name for name in applications() if application(name).has_library]
    for name, row in rows.items():
        for package in application(name).packages:
            library, version = package.split(">=")
            assert library in row[1]
            assert row[2] == f"{version} and later"


def markers_of(suite):
    """The protocols that the tests of a suite are marked with."""
    found = set()
    for path in suite.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and ast.unparse(node).startswith("pytest.mark."):
                found.add(node.attr)
    return found & set(PROTOCOLS)


def test_suites_and_their_protocols_are_those_of_the_code():
    told = {codes(row[0])[0]: set(row[2].split(", ")) for row in table("docs/suites.md", "suite", "study")}
    suites = sorted(path for path in (TOP / "suites").iterdir() if any(path.glob("test_*.py")))
    assert told == {f"suites/{path.name}/": {PROTOCOLS[name].title for name in markers_of(path)} for path in suites}


@pytest.mark.parametrize(
    ("word", "known"),
    [
        ("protocol", PROTOCOLS),
        ("engine", ENGINES),
        ("transport", TRANSPORTS),
        ("design", DESIGNS),
        ("format", FORMATS),
        ("access method", ACCESS_METHODS),
        ("backend", {*BACKENDS, "existing"}),
    ],
)
def test_lists_of_the_glossary_are_whole(word, known):
    (row,) = [row for row in table("docs/glossary.md", "word") if f"**{word}**" in row[0]]
    assert sorted(codes(row[1])) == sorted(known)


@pytest.mark.parametrize(("word", "known"), [("metric", METRICS), ("server program", SERVERS), ("command", COMMANDS)])
def test_examples_of_the_glossary_are_there(word, known):
    (row,) = [row for row in table("docs/glossary.md", "word") if f"**{word}**" in row[0]]
    assert {code for code in codes(row[1]) if re.fullmatch(r"[a-z_]+", code)} <= set(known)


def test_the_readme_names_every_application():
    text = page("README.md").partition("## ")[0]
    assert [name for name in applications() if application(name).title not in text] == []
