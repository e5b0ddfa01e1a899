"""The documentation is true: its examples run, its tables are those of the code, its sentences are in the source."""

from __future__ import annotations

import argparse
import ast
import os
import re
import subprocess
import sys
from array import array
from functools import cache
from pathlib import Path

import pytest

from pytest_ipperf.agent.facts import FACTS
from pytest_ipperf.agent.flows.engines import ENGINES
from pytest_ipperf.agent.rpc.handlers import HANDLERS
from pytest_ipperf.agent.tunnels.backends import BACKENDS
from pytest_ipperf.cli.commands import COMMANDS
from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.design.design import DESIGNS
from pytest_ipperf.core.inference.power import MIN_EPOCHS, minimum_detectable
from pytest_ipperf.core.measurement.goodput_ceiling import HeaderOverhead, ceiling_bit_s
from pytest_ipperf.core.measurement.path_proof import (
    ExpectedPath,
    goodput_violations,
    path_violations,
    proof_violations,
    rate_violations,
)
from pytest_ipperf.core.nightly.report import GateStatus
from pytest_ipperf.core.portable.units import bytes_text
from pytest_ipperf.core.portable.workload_kind import FLOWS, QUERIES, TRANSFERS
from pytest_ipperf.core.stats.interval import t_quantile
from pytest_ipperf.lab import inventory
from pytest_ipperf.lab.access import ACCESS_METHODS
from pytest_ipperf.lab.doctor.checks import CHECKS
from pytest_ipperf.lab.inventory.builtin import BUILTIN
from pytest_ipperf.lab.inventory.model import AUTO, DEFAULT_PORTS, Links
from pytest_ipperf.lab.runs.path_facts import expected_path
from pytest_ipperf.lab.tunnels.backend_choice import lab_backend
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.plugin.measure.outcome import NOTHING_DECIDED
from pytest_ipperf.plugin.options.declarations import (
    FACTORS,
    FILTERS,
    LEVELS,
    LIMITS,
    MARKERS,
    ONCE,
    SETTINGS,
    ini_of,
    long_of,
)
from pytest_ipperf.protocols import PROTOCOLS, application, applications, of_kind
from pytest_ipperf.protocols.base import PHASES
from pytest_ipperf.report.formats import FORMATS
from pytest_ipperf.servers import SERVERS
from pytest_ipperf.store import SCHEMA, EventLog
from pytest_ipperf.transports import TRANSPORTS
from tests.core.simulations.formulas import detectable
from tests.project.doc_tables import TABLES, written
from tests.project.pages import blocks, codes, names, page, table
from tests.support.sessions.project_settings import STRICT

TOP = Path(__file__).parents[2]
DOCS = TOP / "docs"
PAGES = [TOP / "README.md", *sorted(DOCS.rglob("*.md"))]
DECISIONS = sorted((DOCS / "decisions").glob("*.md"))


def ids(result):
    return [line.split("[")[1].rstrip("]") for line in result.outlines if "::" in line]


# --- examples run -----------------------------------------------------------------------------------------------------


def collected(pytester, *arguments):
    return pytester.runpytest_inprocess(
        "--ipver=6", "--testbed=lab", "--collect-only", "-q", "-p", "no:randomly", *arguments
    )


def test_the_readmes_suite_has_the_ids_that_it_shows(pytester):
    text = page("README.md")
    (suite,) = blocks(text, "python")
    pytester.makepyprojecttoml(STRICT)
    pytester.makepyfile(test_mail=suite)
    shown = re.findall(r"^test_mail\.py::.*$", text, re.MULTILINE)
    asked = re.search(r"`~/ipperf/bin/pytest (-m smtp .*)` measures it", text)
    assert asked
    found = [line for line in collected(pytester, *asked[1].split()).outlines if "::" in line]
    assert found == (shown if lab_backend(BUILTIN["lab"], AUTO)[0] else shown[:1])


def test_the_suite_of_the_suites_page_has_its_levels_and_its_grid(pytester):
    pytester.makepyfile(test_mail=blocks(page("docs/suites.md"), "python")[0])
    everyday = [f"lab-smtp-c{number}-1k-ipv6" for number in (1, 10, 100)]
    native = ("--transport=native",)
    assert ids(collected(pytester, *native)) == everyday
    assert ids(collected(pytester, *native, "--design=paper")) == [*everyday, "lab-smtp-c500-1k-ipv6"]


def test_the_ini_example_is_accepted(pytester):
    pytester.makepyprojecttoml(blocks(page("docs/suites.md"), "toml")[0])
    pytester.makepyfile(test_mail=blocks(page("docs/suites.md"), "python")[0])
    result = pytester.runpytest_inprocess("-p", "no:randomly", "--collect-only")
    result.stdout.fnmatch_lines(["ipperf *: testbed lab; design standard; *"])


def test_the_inventory_of_the_hosts_page_is_read(tmp_path):
    (text,) = blocks(page("docs/hosts.md"), "ini")
    path = tmp_path / "hosts.ini"
    path.write_text(text)
    office = inventory.read_inventory(path)["office"]
    assert (office.client.name, office.server.way, office.domain) == ("alpha", "ssh", "floor1")
    assert (office.client.cpus, office.server.ports) == ((2, 3), (21000, 21099))
    assert not office.lacks(Arm(6, "native"))


def test_the_projects_inventory_names_no_testbed_until_its_comments_are_taken_away(tmp_path):
    text = page("hosts.ini")
    assert set(inventory.read_inventory(TOP / "hosts.ini")) == set(BUILTIN)
    _, _, example = text.partition("#\n")
    path = tmp_path / "hosts.ini"
    path.write_text(re.sub(r"^# ?", "", example, flags=re.MULTILINE))
    found = inventory.read_inventory(path)
    assert not found["office"].lacks(Arm(6, "tunnel"))
    assert not found["crowd"].lacks(Arm(6, "isatap"))
    keys = set(re.findall(r"^(\w+) =", path.read_text(), re.MULTILINE))
    ways = {key for name in ACCESS_METHODS if ACCESS_METHODS[name].in_inventory for key in ACCESS_METHODS[name].keys}
    assert keys == inventory.TESTBED_KEYS | inventory.HOST_KEYS | inventory.LAB_KEYS | ways
    assert found["far"].links == Links(rate_bit_s=2e7, loss=0.001, delay_s=0.025)


def test_the_records_are_read_back_as_the_page_shows(tmp_path):
    journal = EventLog(tmp_path, "main")
    journal.append("session", {"seed": 1})
    rows = array("d", [0.0, 0.25, 0.5, 0.75, 1.0, 0.0, 0.0, 0.0, 0.25, 0.5, 0.75, 2.0, 0.0, 0.0])
    for block, warmup in ((-1, True), (0, False)):
        facts = {"workload": "lab-smtp-c2-1k", "arm": "ipv6", "epoch": 0, "block": block, "warmup": warmup}
        offset = journal.append_samples(rows.tobytes())
        result = {"columns": PHASES, "values": {"response_time": 1.5}, "rows": 2, "offset": offset}
        journal.append("run", facts | result)
    journal.close()
    code = blocks(page("docs/records.md"), "python")[0]
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=False)
    assert (done.stderr, done.stdout) == ("", "lab-smtp-c2-1k ipv6 0 0 1.5 {'response_time': 1.5}\n")


def test_rates_are_made_of_counters_as_the_page_shows(tmp_path):
    journal = EventLog(tmp_path, "main")
    for at, (epoch, when, moved) in enumerate((("0", "before", 2**32 - 1000), ("0", "after", 1000), ("1", "before", 0),
                                               ("1", "after", 1000))):  # fmt: skip
        interfaces = {"eth0": {"in_bytes": moved, "out_bytes": 0, "bits": 32}}
        hosts = {"server": {"uptime_s": 1.0, "interfaces": interfaces}}
        journal.append("counters", {"at": at, "workload": "w", "epoch": epoch, "when": when, "hosts": hosts})
    journal.close()
    code = blocks(page("docs/records.md"), "python")[2]
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=False)
    assert (done.stderr, done.stdout) == ("", "w server eth0 12000 bit/s, at most 16000\n")


def test_the_hook_of_the_records_page_is_heard(pytester):
    pytester.makeconftest(blocks(page("docs/records.md"), "python")[1])
    result = pytester.runpytest_inprocess("--collect-only")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED


# --- tables agree with the code ---------------------------------------------------------------------------------------


def test_all_options_are_told_with_their_ini_twins_and_defaults():
    suites = "docs/suites.md"
    assert names(suites, "filter") == [name for name, *_ in FILTERS]
    assert names(suites, "level", "value") == [*(name for name, *_ in LEVELS), *(f"--{name}" for name in FACTORS)]
    assert names(suites, "limit", "value") == [name for name, *_ in LIMITS]
    assert names(suites, "once", "value") == [name for name, *_ in ONCE]
    documented = [
        [*codes(row[0]), "".join(codes(row[1])), *codes(row[2])] for row in table(suites, "setting", "default")
    ]
    assert documented == [[name, default, ini_of(name)] for name, _, default, _ in SETTINGS]
    for kind in ("filter", "level", "limit"):
        assert all(codes(row[2]) == [ini_of(codes(row[0])[0])] for row in table(suites, kind, "value", "ini twin"))
    known = {name for name, *_ in (*FILTERS, *LEVELS, *LIMITS, *ONCE, *SETTINGS)} | {f"--{name}" for name in FACTORS}
    shown = {code.split("=")[0] for row in table("README.md", "option") for code in codes(row[0])}
    assert shown <= known


@cache
def options_of_ours():
    short = {name for name, *_ in (*FILTERS, *LEVELS, *LIMITS, *ONCE, *SETTINGS)} | {f"--{name}" for name in FACTORS}
    known = {"--ipperf-NAME", *short, *map(long_of, short)}
    for command in COMMANDS.values():
        parser = argparse.ArgumentParser()
        command.arguments(parser)
        known |= set(re.findall(r"--ipperf-\w+", parser.format_help()))
    return known


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_no_page_names_an_option_of_ours_that_is_not_there(path):
    assert set(re.findall(r"--ipperf-\w+", path.read_text())) <= options_of_ours()


def size_of(design):
    looks = f", up to {design.looks} looks" if design.looks > 1 else ""
    return f"{design.epochs} x {design.blocks}{looks}"


def test_designs_are_those_of_the_code():
    for row in table("docs/suites.md", "design"):
        design = DESIGNS[codes(row[0])[0]]
        judges = f"at {100 * design.alpha:g} %" if design.judges else "never"
        flowing = f"{design.run_s:g} s after {design.warmup_s:g} s"
        assert row[1:] == [size_of(design), str(design.run_connections), flowing, judges, design.purpose]
    for row in table("docs/statistics.md", "design"):
        design = DESIGNS[codes(row[0])[0]]
        least, most = (epochs * design.blocks for epochs in (design.epochs, design.most_epochs))
        runs = f"{least}" if least == most else f"{least} to {most}"
        assert row[1:] == [size_of(design), runs, f"{100 * design.alpha:g} %", "yes" if design.judges else "never"]
    assert names("docs/suites.md", "design") == names("docs/statistics.md", "design") == list(DESIGNS)
    (row,) = [row for row in table("README.md", "option") if "--design" in row[0]]
    assert codes(row[1]) == list(DESIGNS)


def test_markers_are_those_of_the_code():
    documented = [code.split("(")[0] for code in names("docs/suites.md", "marker")]
    assert documented == [*PROTOCOLS, *(line.split("(")[0] for line in MARKERS)]
    for row in table("docs/suites.md", "marker")[: len(PROTOCOLS)]:
        name = codes(row[0])[0]
        assert name not in applications() or application(name).ends_with == codes(row[1])[0]
    text = page("docs/suites.md")
    sizes = re.search(r"A page needs at least (\d+) bytes, a message at least (\d+)", text)
    assert sizes is not None
    for protocol, size in zip(("http", "smtp"), map(int, sizes.groups()), strict=True):
        assert len(application(protocol).content(size)) == size
        with pytest.raises(Exception, match=bytes_text(size)):
            application(protocol).content(size - 1)


def test_flows_their_factors_and_metrics_are_those_of_the_code():
    flows = sorted([*of_kind(FLOWS), *of_kind(TRANSFERS), *of_kind(QUERIES)])
    documented: dict[str, dict[str, str]] = {}
    name = ""
    for row in table("docs/flows.md", "protocol", "connections", "payload", "factor"):
        name = codes(row[0])[0] if row[0] else name
        own = documented.setdefault(name, {})
        if row[3]:
            own[codes(row[3])[0]] = codes(row[5])[0]
    assert documented == {
        name: {each.name: each.text(each.levels[0]) for each in PROTOCOLS[name].factors if not each.silent}
        for name in documented
    }
    assert sorted(documented) == flows
    found = {}
    for row in table("docs/flows.md", "metric"):
        metric = METRICS[codes(row[0])[0]].metric
        known = [metric.formula, metric.unit, metric.scale, f"`{metric.margin}`", metric.source]
        assert row[2:] == known
        found[metric.name] = codes(row[1])
    assert found == {
        metric: [name for name in flows if metric in PROTOCOLS[name].metrics]
        for metric in dict.fromkeys(each for name in documented for each in PROTOCOLS[name].metrics)
    }
    samples = {codes(row[0])[0]: codes(row[1]) for row in table("docs/flows.md", "protocol", "columns")}
    assert samples == {name: list(PROTOCOLS[name].columns) for name in documented}


def test_servers_are_those_of_the_code():
    for row in table("docs/servers.md", "server"):
        server = SERVERS[codes(row[0])[0]]
        assert row[1:3] == [server.protocol, "embedded" if server.embedded else "real"]
        assert server.embedded or server.apt in codes(row[3])
    assert set(names("docs/servers.md", "server")) == set(SERVERS)


@pytest.mark.parametrize(("name", "head"), TABLES)
def test_tables_that_the_code_says_are_written_anew_after_a_change(name, head):
    text = page(f"docs/{name}")
    assert written(text, head, TABLES[name, head]()) == text, "run `make docs`"


def test_registries_are_those_of_the_code():
    documented = {codes(row[0])[0]: codes(row[2]) for row in table("docs/architecture.md", "registry")}
    assert documented == {
        "protocols/": list(PROTOCOLS),
        "servers/": list(SERVERS),
        "transports/": list(TRANSPORTS),
        "metrics/": list(METRICS),
        "lab/access/": list(ACCESS_METHODS),
        "agent/tunnels/backends/": list(BACKENDS),
        "agent/flows/engines/": list(ENGINES),
        "agent/facts/": list(FACTS),
        "agent/rpc/handlers/": list(HANDLERS),
        "lab/doctor/checks/": list(CHECKS),
        "report/formats/": list(FORMATS),
        "cli/commands/": list(COMMANDS),
    }


@pytest.mark.parametrize("header", ["layer", "to change", "step"])
def test_every_module_that_the_architecture_names_is_there(header):
    for row in table("docs/architecture.md", header):
        named = [code for cell in row[1:] for code in codes(cell) if code.endswith((".py", "/"))]
        assert named or "howto" in row[1]
        for code in named:
            # The folders within a room are named without it.
            rooms = ("", *(f"{room}/" for room in codes(row[1]) if room.endswith("/")))
            tops = (TOP / "pytest_ipperf", TOP)
            assert any((top / room.strip("/") / code).exists() for top in tops for room in rooms), code


def test_hosts_and_their_keys_are_those_of_the_code():
    assert names("docs/hosts.md", "testbed") == list(BUILTIN)
    for row in table("docs/hosts.md", "testbed"):
        for host in BUILTIN[codes(row[0])[0]].hosts:
            assert {host.ipv4, host.ipv6} <= set(re.findall(r"[\d:.]+[\d]", row[1]))
    ways = [name for name in ACCESS_METHODS if ACCESS_METHODS[name].in_inventory]
    keys = [(codes(row[0])[0], len(row)) for row in table("docs/hosts.md", "key", "meaning")]
    assert {key for key, columns in keys if columns == 2} == inventory.TESTBED_KEYS
    of_ways = {key for name in ways for key in ACCESS_METHODS[name].keys}
    assert {key for key, columns in keys if columns == 3} == inventory.HOST_KEYS | of_ways
    assert set(names("docs/hosts.md", "key", "value")) == inventory.LAB_KEYS
    assert names("docs/hosts.md", "way") == ways
    assert f"{DEFAULT_PORTS[0]}-{DEFAULT_PORTS[1]}" in page("docs/hosts.md")


def test_exit_statuses_are_pytests_and_ours():
    statuses = sorted({*range(pytest.ExitCode.NO_TESTS_COLLECTED + 1), NOTHING_DECIDED, *GateStatus})
    assert sorted(int(row[0]) for row in table("docs/night.md", "status", "the night is")) == sorted(GateStatus)
    assert [int(row[0]) for row in table("docs/exit-status.md", "status", "when")] == statuses
    assert re.findall(r"^\| exit status \| (.*) \|$", page("README.md"), re.MULTILINE) == [
        " | ".join(map(str, statuses))
    ]


def test_events_and_columns_of_the_records_are_those_of_the_code():
    assert tuple(names("docs/records.md", "column")) == PHASES
    sources = [
        (TOP / f"pytest_ipperf/plugin/{name}.py").read_text(encoding="utf-8")
        for name in (
            "session/plan_text",
            "display/progress",
            "session/journal",
            "session/commit",
            "measure/provisioning_teardown",
        )
    ]
    nodes = [node for source in sources for node in ast.walk(ast.parse(source))]
    written = {
        key.value for node in nodes if isinstance(node, ast.Dict) for key in node.keys if isinstance(key, ast.Constant)
    }
    events = table("docs/records.md", "event")
    documented = {code for row in events for code in codes(row[2])} | {"warmups", "blocks", "together"}
    documented |= {code for row in table("docs/records.md", "key") for code in codes(row[0])}
    assert documented == written
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    calls = [call for call in calls if ast.unparse(call.func).endswith((".append", "._append"))]
    named = {call.args[0].value for call in calls if isinstance(call.args[0], ast.Constant)}
    assert {codes(row[0])[0] for row in events} == named
    assert f"today {SCHEMA}" in page("docs/records.md")


def test_figures_of_the_statistics_page_are_what_the_code_computes():
    assert f"fewer than {MIN_EPOCHS} epochs" in page("docs/statistics.md")
    for count, quantile, share in table("docs/statistics.md", "epochs"):
        epochs = int(count)
        assert quantile == f"{t_quantile(0.95, epochs - 1):.2f}"
        assert share == f"{100 * minimum_detectable(0.05, epochs, alpha=0.05):.1f} %"
    for spread, *documented in table("docs/statistics.md", "spread of a run"):
        sd = float(spread.removesuffix(" %")) / 100
        quick, standard = DESIGNS["quick"], DESIGNS["standard"]
        looks = ((quick, quick.epochs), (standard, standard.epochs), (standard, standard.most_epochs))
        found = [
            detectable(sd, 0.01, epochs, design.blocks, alpha=design.alpha, location="median")
            for design, epochs in looks
        ]
        assert documented == [f"{100 * each:.1f} %" for each in found]


def test_the_proof_says_what_the_page_shows():
    lab = BUILTIN["pair"]
    demanded = {
        ipver: ExpectedPath(
            ipver=ipver,
            client=lab.client.address(ipver),
            server=lab.server.address(ipver),
            exclusive=True,
        )
        for ipver in (4, 6)
    }
    seen = {"families": ["AF_INET6"], "peers": {"::ffff:198.18.0.2": 300}, "sources": [], "completed": 300,
            "packets": {"ipv4": 3600, "ipv6": 0},
            "bare_ipv6": None, "protocol41": {"client": None, "server": {"in": 1800, "out": 0}}}  # fmt: skip
    native = {"device": "eth0", "type": 1, "mtu": 1500, "path_mtu": 0, "mss": 0}
    facts = {"routes": {"client": native}, "fits": {1500: "no answer", 1501: "too big"}}
    routed = {"routes": {"client": {"device": "sit1", "type": 776}}}
    found = [
        *path_violations(demanded[6], facts),
        *path_violations(demanded[6], facts | routed),
        *proof_violations(demanded[6], seen),
    ]
    assert len(found) == 6
    shown = "".join(blocks(page("docs/proof.md"), ""))
    assert not [sentence for sentence in found if sentence not in shown]


def test_the_proof_says_of_tunnels_what_the_page_shows():
    lab, arm = BUILTIN["lab"], Arm(6, "tunnel")
    demanded = expected_path(lab, arm, (3, 2))
    met = {"client": {"in": 600, "out": 0}, "router": {"in": 250, "out": 250}, "server": {"in": 900, "out": 600}}
    route = {"device": demanded.devices["client"]["tunnel"], "type": 1, "mtu": 1480, "path_mtu": 0, "mss": 0}
    seen = {"families": ["AF_INET6"], "peers": {demanded.server: 300}, "sources": [demanded.client], "completed": 300,
            "packets": {"ipv4": 0, "ipv6": 3600}, "protocol41": met, "bare_ipv6": {"in": 0, "out": 3600}}  # fmt: skip
    routes = [{"client": {**route, **change}} for change in ({"device": "eth0"}, {"mtu": 1400}, {"path_mtu": 1300})]
    found = proof_violations(demanded, seen)
    for each in routes:
        found += path_violations(demanded, {"routes": each, "fits": {}})
    found += path_violations(demanded, {"routes": {"client": route}, "fits": {}, "back": {1480: "no answer"}})
    assert len(found) == 7
    shown = "".join(blocks(page("docs/proof.md"), ""))
    assert not [sentence for sentence in found if sentence not in shown]


def test_the_arms_of_the_proofs_page_have_the_devices_and_carriers_of_the_code():
    with_router, without = BUILTIN["lab"], BUILTIN["pair"]
    paths = [with_router.paths["tunnel"], with_router.paths["isatap"], without.paths["isatap"]]
    rows = table("docs/proof.md", "arm", "device, MTU")[1:]
    for path, row in zip(paths, rows, strict=True):
        assert codes(row[1]) == list(dict.fromkeys(path.devices.values()))
        assert {str(end.mtu) for end in path.ends.values()} == set(re.findall(r"\d{4}", row[1]))
        assert re.findall("client|router|server", row[1]) == list(path.devices)
        assert set(re.findall("client|router|server", row[2])) == set(path.carriers)


def test_the_proof_says_of_links_with_a_rate_what_the_page_shows():
    shown, layers = page("docs/proof.md"), HeaderOverhead(ipver=6, overhead_bytes=20)
    moved = goodput_violations(1e8, layers, moved_bytes=11_675_000, time_s=1.0, bucket_bytes=16384)
    shaped = ExpectedPath(ipver=6, client="", server="", exclusive=True, rate_bit_s=1e8)
    bare = path_violations(shaped, {"routes": {}, "fits": {}, "rates": {"server": {"eth0": 0.0}}})
    assert len(bare) == 1
    for sentence in (*rate_violations(1e8, {"client": 1.042e8}), *moved, *bare):
        assert sentence in "".join(blocks(shown, ""))
    ceilings = [ceiling_bit_s(1e8, each) / 1e6 for each in (HeaderOverhead(ipver=4), HeaderOverhead(ipver=6), layers)]
    assert "{:.2f} Mbit/s for `ipv4`, {:.2f} for `ipv6`, {:.2f} for `ipv6-tunnel`".format(*ceilings) in shown


# --- sentences and links ----------------------------------------------------------------------------------------------


def templates():
    """Every text of the package's source, with `...` where a value is filled in."""
    for path in (TOP / "pytest_ipperf").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else "..." for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def test_every_sentence_of_the_trouble_page_is_in_the_source():
    known = "\0".join(text.replace("\0", "") for text in templates())
    sentences = names("docs/trouble.md", "sentence")
    assert len(sentences) > 50
    forms = {
        sentence: re.compile("[^\0]*".join(re.escape(part.strip(" ")) for part in sentence.split("...")))
        for sentence in sentences
    }
    assert not [sentence for sentence, form in forms.items() if not form.search(known)]


def test_the_tunnels_page_lists_every_check_of_the_wire():
    rows = [row[0].partition(" (RFC")[0].replace("-", " ").lower() for row in table("docs/tunnels.md", "check")]
    documented = [re.sub("[^a-z0-9 ]", "", row) for row in rows]
    asked = re.findall(r"^def test_(\w+)", page("tests/system/paths/test_wire.py"), re.MULTILINE)
    assert [each.replace("_", " ") for each in asked] == documented


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_every_relative_link_leads_somewhere(path):
    targets = re.findall(r"\]\(([^)#\s]+)", path.read_text(encoding="utf-8"))
    assert not [each for each in targets if "://" not in each and not (path.parent / each).exists()]


def test_the_index_lists_every_page():
    listed = set(re.findall(r"\]\(([^)]+)\)", page("docs/index.md")))
    assert listed == {os.path.relpath(path, DOCS) for path in PAGES[1:]} - {"index.md"}


def test_readme_and_decisions_keep_to_their_length():
    assert len(page("README.md").splitlines()) <= 150
    for path in DECISIONS:
        lines = path.read_text(encoding="utf-8").splitlines()
        assert len(lines) <= 30, path
        assert lines[0].startswith(f"# {path.name[:4]} ")
        assert [line for line in lines if line.startswith("## ")] == ["## Context", "## Decision", "## Consequences"]
