"""Voice, games and other modelled traffic in pytest: ids, mistakes, and sessions with their records and tables."""

import re
from collections import Counter, defaultdict

import pytest

from pytest_ipperf.core.design.cell import ARM_LEVEL_PATTERN
from pytest_ipperf.lab.netns.namespaces import unusable
from pytest_ipperf.plugin.measure.outcome import NOTHING_DECIDED
from pytest_ipperf.traffic_models import shipped_models
from tests.support.sessions.project_settings import GLANCE

SUITE = """
import pytest

@pytest.mark.voip
@pytest.mark.levels(connections=[6], codec=["g729.2"], vad=["off", "p59"])
def test_voice(measured, margin):
    assert measured.slowdown <= margin

@pytest.mark.game
@pytest.mark.levels(connections=[3], game=["counterstrike"])
def test_game(measured, margin):
    assert measured.slowdown <= margin

@pytest.mark.traffic
@pytest.mark.levels(connections=[1], payload=["100"])
def test_traffic(measured, margin):
    assert measured.slowdown <= margin
"""
# The seed fixes all packets, so that in no run everybody is silent.
FLOW = ("--duration=0.5s", "--ipperf-seed=7")


@pytest.fixture
def suite(project):
    project.pytester.makepyfile(SUITE)
    return project


def test_ids_have_the_model_and_what_is_not_implicit(suite):
    result = suite.ask("--collect-only", "-q")
    assert [line.partition("::")[2] for line in result.outlines if "::" in line] == [
        "test_voice[loopback-voip-c6-1-g729.2-ipv6]",
        "test_voice[loopback-voip-c6-1-g729.2-vadp59-ipv6]",
        "test_game[loopback-game-c3-1-counterstrike-ipv6]",
        "test_traffic[loopback-traffic-c1-100-constant-ipv6]",
    ]


COMPARED = """
import pytest

@pytest.mark.game
@pytest.mark.compare("game", transport=["native"])
@pytest.mark.levels(connections=[2], game=["counterstrike", "cs.active", "quake3"])
def test_game(measured, margin):
    assert measured.slowdown <= margin
"""


def test_games_are_compared_as_arms_that_ids_and_workers_of_xdist_name(project):
    project.pytester.makepyfile(COMPARED)
    result = project.ask("--collect-only", "-q")
    assert [line.partition("::")[2] for line in result.outlines if "::" in line] == [
        f"test_game[loopback-game-c2-1-vs_game_counterstrike-ipv{ipver}-game_{game}]"
        for ipver in (4, 6)
        for game in ("cs.active", "quake3")
    ]
    project.pytester.makeconftest(GLANCE)
    result = project.run("--design=glance", "--game=cs.active,counterstrike", "-n", "1", "-v")
    assert result.ret == NOTHING_DECIDED, result.stdout.str()
    assert {each["arm"] for each in project.kept() if each["event"] == "run"} == {
        f"ipv{ipver}-game_{game}" for ipver in (4, 6) for game in ("counterstrike", "cs.active")
    }
    result.stdout.fnmatch_lines(["ipperf: plan: 1 workload, *"])


METER = """
title = "A meter"
source = "here"

[[stream]]
direction = "up"
interval_ms = 10
size_bytes = 50
"""
EDITED = """
import pytest

@pytest.mark.traffic
@pytest.mark.levels(connections=[1], model=["meter"])
def test_model(measured, margin):
    assert measured.slowdown <= margin

@pytest.mark.traffic
@pytest.mark.compare("model", transport=["native"])
@pytest.mark.levels(connections=[1], model=["constant", "meter"])
def test_models(measured, margin):
    assert measured.slowdown <= margin

@pytest.mark.rtt
@pytest.mark.levels(connections=[1])
def test_rtt(measured, margin):
    assert measured.slowdown <= margin
"""
SHORT = """
from pytest_ipperf.core.design.design import DESIGNS, Design

DESIGNS["short"] = Design(
    name="short", epochs=1, blocks=1, alpha=0.05, judges=False, purpose="this test", warmup_s=0.1, run_s=0.5
)
"""


def test_an_edited_model_begins_new_histories_and_is_measured_anew(project):
    project.pytester.makepyfile(EDITED)
    project.pytester.makeconftest(SHORT)
    path = project.pytester.mkdir("own") / "meter.toml"
    versions: list[dict[str, str]] = []
    for text, more in ((METER, []), (METER.replace("10", "11"), ["--ipperf-resume=last"])):
        path.write_text(text, encoding="utf-8")
        result = project.run("--design=short", "--ipver=6", "--ipperf-models=own", *more)
        assert result.ret == NOTHING_DECIDED, result.stdout.str()
        records = [each for each in project.kept() if each["event"] == "record"][-3:]
        versions.append({each["nodeid"].partition("::")[2]: each["workload_version"] for each in records})
    assert set(re.findall(r"measured anew: (.*)", result.stdout.str())) == {
        f"loopback-traffic-c1-512-{of}: traffic model meter had another content there"
        for of in ("meter", "vs_model_constant")
    }
    result.stdout.fnmatch_lines(["reused from session *, which measured them: 1 cell *"])
    first, second = versions
    assert first.keys() == second.keys()
    changed = {name.partition("[")[0] for name in first if first[name] != second[name]}
    assert changed == {"test_model", "test_models"}
    assert {name.partition("[")[0] for name in first if "-model" not in first[name]} == {"test_rtt"}


def test_every_model_of_the_package_can_be_compared():
    assert all(re.fullmatch(ARM_LEVEL_PATTERN, f"model_{name}") for name in shipped_models())


@pytest.mark.parametrize(
    ("mark", "sentence"),
    [
        ('voip\n@pytest.mark.levels(codec=["g71.1"])', "*no traffic model 'g71.1'; there are *did you mean 'g711.1'?"),
        ('voip\n@pytest.mark.levels(codec=["telnet"])', "*traffic model telnet is no codec, as its file lacks*"),
        ('game\n@pytest.mark.levels(payload=["99"])', "*payload 99 has no meaning for model cs.active, which has its*"),
        ('voip\n@pytest.mark.levels(vad=["on"])', "*vad 'on' does not exist; there are off, p59, ditg"),
        (
            "traffic\n@pytest.mark.levels(connections=[1001])",
            "*1001 connections at once are more than traffic supports*",
        ),
    ],
)
def test_a_wrong_level_of_a_marker_is_told_before_anything_is_measured(project, mark, sentence):
    text = "import pytest\n@pytest.mark.{}\ndef test_it(measured, margin):\n    assert measured.slowdown <= margin\n"
    project.pytester.makepyfile(text.format(mark))
    result = project.ask("--collect-only")
    result.stdout.fnmatch_lines([sentence])
    assert result.ret == pytest.ExitCode.INTERRUPTED


def test_a_model_that_does_not_exist_is_an_error_of_the_option(suite):
    result = suite.ask("--collect-only", "-m", "game", "--game=quake9")
    result.stdout.fnmatch_lines(["*no traffic model 'quake9'; there are *"])
    assert result.ret == pytest.ExitCode.INTERRUPTED


def test_a_smoke_session_measures_calls_and_players_and_shows_them(suite):
    result = suite.run("--design=smoke", *FLOW, "-m", "voip or game", "-v")
    assert result.ret == NOTHING_DECIDED, result.stdout.str()
    said = result.stdout.str()
    for row in ("payload, of planned", "IP packets, of planned", "MOS", "R factor", "jitter (RFC 3550)", "sent late"):
        assert row in said
    runs = [each for each in suite.kept() if each["event"] == "run"]
    schedules, sent = defaultdict(set), Counter[tuple[str, str]]()
    for each in runs:
        facts = each["facts"]
        # Of a single run a sender that is held up may miss all.
        sent.update({(each["workload"], way): facts[f"{way}_sent"] for way in ("up", "down")})
        planned = [
            facts[f"{way}_sent{of}"] + facts[f"{way}_missed{of}"] for way in ("up", "down") for of in ("", "_bytes")
        ]
        schedules[each["workload"], each["epoch"], each["block"]].add(tuple(planned))
    assert len(sent) == 6
    assert min(sent.values()) > 0
    # All arms of a block have the same packets, and blocks of a random model have others.
    assert all(len(found) == 1 for found in schedules.values())
    assert len(set.union(*(found for (workload, *_), found in schedules.items() if "game" in workload))) > 1
    tables = next((suite.pytester.path / ".ipperf").rglob("tables"))
    assert any("r_factor" in path.read_text(encoding="utf-8") for path in tables.glob("*.csv"))
    assert "G.107" in next((suite.pytester.path / ".ipperf").rglob("report.html")).read_text(encoding="utf-8")


def test_every_arm_of_a_lab_carries_both_carriers(suite):
    if why := unusable():
        pytest.skip(why)
    suite.pytester.makeconftest(GLANCE)
    result = suite.run(
        "--design=glance", *FLOW, "-m", "voip", "--vad=off", "--carrier=udp,tcp",
        "--transport=native,tunnel,isatap", testbed="lab.20mbit",
    )  # fmt: skip
    assert result.ret == NOTHING_DECIDED, result.stdout.str()
    runs = [each for each in suite.kept() if each["event"] == "run"]
    assert {each["arm"] for each in runs} == {"ipv4", "ipv6", "ipv6-tunnel", "ipv6-isatap"}
    headers = {"ipv4": 28, "ipv6": 48, "ipv6-tunnel": 68, "ipv6-isatap": 68}
    for each in runs:
        facts = each["facts"]
        if "tcp" in each["workload"]:
            assert "ip_bit_s" not in facts
        else:
            packets = facts["sent"] + facts["missed"]
            assert facts["planned_ip_bit_s"] - facts["planned_bit_s"] == pytest.approx(
                8 * headers[each["arm"]] * packets / facts["seconds"]
            )
