"""`pytest-ipperf doctor`: the testbeds that it checks, the report of its findings, and its exit status."""

from __future__ import annotations

import json

import pytest

from pytest_ipperf import cli
from pytest_ipperf.cli.commands import doctor
from pytest_ipperf.lab.doctor import Finding, Grade
from pytest_ipperf.lab.netns.namespaces import unusable

INVENTORY = """
[testbed one]
client = alpha
server = beta
domain = floor1
[testbed two]
client = alpha
server = beta
[host alpha]
way = ssh
ssh = alpha
ipv4 = 192.0.2.1
[host beta]
way = ssh
ssh = beta
ipv4 = 192.0.2.2
"""


def finding(subject, said="all is well", grade=Grade.WELL, remedy="", topic="ports"):
    return Finding(grade=grade, subject=subject, topic=topic, said=said, remedy=remedy)


WELL = [finding("alpha"), finding("beta"), finding("alpha -> beta", "it goes", topic="reach"), finding("", "arms")]
DOUBTFUL = [*WELL, finding("beta", "few", Grade.DOUBTFUL, "take more")]
WRONG = [*DOUBTFUL, finding("alpha", "none " * 40 + "at all", Grade.WRONG, "take some")]


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """A function that runs the program on simulated findings; returns status, lines, errors and testbeds examined."""
    monkeypatch.chdir(tmp_path)
    asked: list[tuple[str, bool]] = []

    def ran(*arguments, findings=WELL, inventory=INVENTORY):
        if inventory:
            (tmp_path / "hosts.ini").write_text(inventory)

        def examine(testbed, _, *, clear):
            asked.append((testbed.name, clear))
            return findings

        monkeypatch.setattr(doctor, "examine", examine)
        status = cli.main(["doctor", *arguments])
        shown = capsys.readouterr()
        return status, shown.out.splitlines(), shown.err.strip(), asked

    return ran


@pytest.mark.parametrize(("findings", "status"), [(WELL, 0), (DOUBTFUL, 0), (WRONG, 1)])
def test_the_status_is_one_where_something_is_wrong(run, findings, status):
    assert run("--testbed=one", findings=findings)[0] == status
    assert run("--testbed=one", "--json", findings=findings)[0] == status


def test_hosts_come_first_then_ways_then_the_testbed_and_a_count(run):
    _, lines, _, _ = run("--testbed=one", findings=WRONG)
    assert lines == [
        "testbed one: client alpha, server beta; domain floor1",
        "",
        "alpha, beta",
        "  well      ports  all is well",
        "",
        "beta",
        "  doubtful  ports  few: take more",
        "",
        "alpha",
        "  wrong     ports  none none none none none none none none none none none none none none none none none none",
        "                   none none none none none none none none none none none none none none none none none none",
        "                   none none none none at all: take some",
        "",
        "alpha -> beta",
        "  well      reach  it goes",
        "",
        "testbed",
        "  well      ports  arms",
        "",
        "testbed one: 3 well, 1 doubtful, 1 wrong",
    ]


@pytest.mark.host
@pytest.mark.parametrize(
    ("ini", "names"),
    [("", []), ('ipperf_testbed = ["two"]\n', ["two"]), ('ipperf_testbed = ["two", "pair"]\n', ["two", "pair"])],
)
def test_without_a_testbed_it_is_those_that_a_session_would_take(run, tmp_path, ini, names):
    (tmp_path / "pyproject.toml").write_text(f"[tool.pytest.ini_options]\n{ini}")
    status, lines, said, asked = run()
    assert (status, said) == (0, "")
    assert [name for name, _ in asked] == (names or ["loopback" if unusable() else "lab"])
    if names:
        assert lines[0] == "testbed two: client alpha, server beta"


@pytest.mark.host
def test_the_sessions_own_inventory_and_its_complaints_count(run, tmp_path):
    (tmp_path / "beds.ini").write_text(INVENTORY.replace("testbed two", "testbed three"))
    text = '[tool.pytest.ini_options]\nipperf_hosts = "beds.ini"\nipperf_testbed = ["{}"]\n'
    (tmp_path / "pyproject.toml").write_text(text.format("three"))
    assert run()[3] == [("three", False)]
    (tmp_path / "pyproject.toml").write_text(text.format("two"))
    status, lines, said, asked = run()
    assert (status, lines, asked) == (4, [], [("three", False)])
    assert said.startswith("pytest-ipperf: ini ipperf_testbed: testbed 'two' does not exist; there are lab, pair, ")


@pytest.mark.parametrize("arguments", [("--testbed=two", "--testbed=lab"), ("--testbed=two,lab",)])
def test_testbeds_are_named_and_built_in_ones_too(run, arguments):
    assert run(*arguments, "--clear")[3] == [("two", True), ("lab", True)]


def test_a_lab_needs_no_inventory(run):
    assert run("--testbed=lab.100mbit", inventory="")[3] == [("lab.100mbit", False)]


@pytest.mark.parametrize(
    ("arguments", "inventory", "words"),
    [
        (
            ("--testbed=three",),
            INVENTORY,
            "--testbed: testbed 'three' does not exist; there are lab, pair, loopback, one",
        ),
        (
            ("--testbed=one", "--ipperf-hosts=none.ini"),
            "",
            "none.ini: cannot be read (No such file or directory); name an inventory",
        ),
        (("--nothing",), INVENTORY, "unrecognized arguments: --nothing; see pytest-ipperf doctor --help"),
        (
            ("--testbed=one",),
            "[host alpha]\nway = by foot\n",
            "hosts.ini, line 2: [host alpha]: way 'by foot' does not exist",
        ),
    ],
)
def test_wrong_usage_is_told_and_nothing_is_examined(run, arguments, inventory, words):
    status, lines, said, asked = run(*arguments, inventory=inventory)
    assert (status, lines, asked) == (4, [], [])
    assert said.startswith(f"pytest-ipperf: {words}")


def test_json_has_every_finding(run):
    _, lines, _, _ = run("--testbed=one", "--json", findings=DOUBTFUL)
    (testbed,) = json.loads("\n".join(lines))["testbeds"]
    assert testbed["testbed"] == "one"
    assert len(testbed["findings"]) == 5
    few = {"grade": "doubtful", "host": "beta", "topic": "ports", "said": "few", "remedy": "take more"}
    assert testbed["findings"][-1] == few


def test_no_user_of_a_host_speaks_to_the_terminal(run):
    """Control characters in names of processes and files, or from whoever answers on a port, are replaced."""
    said = finding("beta", "process \x1b[2J\x1b]0;x\x07 is left\r", Grade.DOUBTFUL, "end \x9b it")
    _, lines, _, _ = run("--testbed=one", findings=[said])
    assert "  doubtful  ports  process ?[2J?]0;x? is left?: end ? it" in lines
    _, lines, _, _ = run("--testbed=one", "--json", findings=[said])
    assert all(line.isprintable() for line in lines)


def test_a_terminal_shows_grades_in_colours(run, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setattr(doctor, "screen_width", lambda: 100)
    monkeypatch.delenv("NO_COLOR", raising=False)
    _, lines, _, _ = run("--testbed=one", findings=DOUBTFUL)
    assert "  \x1b[33mdoubtful\x1b[0m  ports  few: take more" in lines
    monkeypatch.setenv("NO_COLOR", "1")
    _, lines, _, _ = run("--testbed=one", findings=DOUBTFUL)
    assert not any("\x1b" in line for line in lines)
