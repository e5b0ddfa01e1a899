"""Query loads as a session measures them: records, tables, CSV and page; and levels that make no sense."""

import csv

import pytest

from pytest_ipperf.plugin.measure.outcome import NOTHING_DECIDED
from pytest_ipperf.servers import SERVERS
from tests.support.sessions.project_settings import GLANCE

SUITE = """
import pytest
from tests.support.sessions.project_settings import GLANCE

@pytest.mark.dns_load
@pytest.mark.levels(carrier=["udp", "tcp"])
def test_rate(measured, margin):
    assert measured.slowdown <= margin

@pytest.mark.dns_load
@pytest.mark.metric("query_time")
@pytest.mark.levels(qps=["500"], payload=["2000"], qnames=["unique"])
def test_time(measured, margin):
    assert measured.slowdown <= margin

@pytest.mark.dns_load
@pytest.mark.metric("query_loss")
@pytest.mark.levels(qps=["500"], payload=["2000"], qnames=["unique"])
def test_loss(measured, margin):
    assert measured.increase <= margin
"""


@pytest.fixture
def suite(project):
    project.pytester.makepyfile(SUITE)
    return project


@pytest.mark.parametrize("server", ["real", "embedded"])
def test_loads_are_in_records_tables_and_page(suite, server):
    if server == "real" and (missing := SERVERS["bind"].missing()):
        pytest.skip(f"bind cannot run here: {missing}")
    suite.pytester.makeconftest(GLANCE)
    result = suite.run(
        "--design=glance", "--duration=500ms", "--ipver=6", "--transport=native", f"--ipperf-server={server}", "-v",
        "-p", "no:randomly",
    )  # fmt: skip
    assert result.ret == NOTHING_DECIDED
    said = result.stdout.str()
    for words in ("DNS load: answered queries per second in query/s", "asked again by TCP", "of 500.0 query/s"):
        assert words in said
    records = [each for each in suite.kept() if each["event"] == "record"]
    assert {each["cell"] for each in records} == {
        "loopback-dns_load-c1-64-ipv6",
        "loopback-dns_load-c1-64-tcp-ipv6",
        "loopback-dns_load-c1-2000-qps500-unique-ipv6",
    }
    assert {each["metric"] for each in records} == {"queries_per_second", "query_time", "query_loss"}
    for record in records:
        assert record["server"].split()[0] == {"real": "bind", "embedded": "nameserver"}[server]
        for side in (record["test"], record["reference"]):
            assert side["figures"]["queries_per_second"] > 0
            assert side["figures"]["sender_cpu_s"] >= 0
            assert side["figures"]["truncated"] > 0 or record["payload_bytes"] == 64
    runs = [each for each in suite.kept() if each["event"] == "run"]
    assert all(each["proof"]["families"] == [{"ipv4": "AF_INET", "ipv6": "AF_INET6"}[each["arm"]]] for each in runs)
    (folder,) = suite.pytester.path.glob(".ipperf/runs/*")
    rows = list(csv.DictReader((folder / "tables" / "flows.csv").read_text().splitlines()))
    assert {(row["metric"], row["unit"]) for row in rows} == {
        ("queries_per_second", "query/s"), ("query_time", "s"), ("query_loss", "1"),
    }  # fmt: skip
    assert "DNS load" in (folder / "report.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--payload=60001"], "payload 60001 does not fit a DNS message; dns_load takes 60000 at most"),
        (["--connections=1001"], "1001 clients are more than dns_load supports; take 1000 at most"),
        (
            ["--connections=101", "-k", "rate"],
            "outstanding 100 is not possible with 101 clients of dns_load, each of which waits for one at least",
        ),
        (["--edns=511"], "edns 511 is not a buffer size of dns_load; take 512 to 4096, or none"),
        (["--edns=4096"], "edns 4096 limits datagrams and has no effect with carrier tcp; leave it out"),
        (["--reuse=per_query"], "reuse 'per_query' is about connections and has no effect with carrier udp"),
        (["--spacing=constant"], "spacing 'constant' has no effect in a closed loop; give a rate with qps"),
        (["--outstanding=5"], "outstanding 5 has no effect at a rate of queries, which does not wait for answers"),
        (["--qps=fast"], "number 'fast' is not one such as 100 or 20k"),
        (["--qnames=few"], "qnames 'few' does not exist; there are one, unique"),
        (["--client=library"], "--client: it has no effect on any selected protocol; selected: dns_load"),
    ],
)
def test_what_cannot_be_is_one_sentence(suite, arguments, sentence):
    result = suite.ask("--design=smoke", "-p", "no:randomly", *arguments)
    assert sentence in result.stdout.str() + result.stderr.str()
    codes = pytest.ExitCode
    assert result.ret in (codes.USAGE_ERROR, codes.INTERRUPTED, codes.NO_TESTS_COLLECTED)
