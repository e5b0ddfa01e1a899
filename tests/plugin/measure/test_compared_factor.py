"""A factor compared by marker `compare`: its levels as arms, what each is compared with, and mistakes."""

import pytest

from pytest_ipperf.lab.netns.namespaces import unusable

SUITE = """
import pytest

@pytest.mark.smtp
@pytest.mark.compare("offload", transport=["native"])
@pytest.mark.levels(connections=[1], offload=["on", "off"])
def test_smtp(measured, margin):
    assert measured.slowdown <= margin
"""
WORKLOAD = "lab-smtp-c1-1k-vs_offload_on"
OFF = [f"{WORKLOAD}-ipv4-offload_off", f"{WORKLOAD}-ipv6-offload_off"]

pytestmark = pytest.mark.skipif(bool(unusable()), reason=f"the lab cannot be built: {unusable()}")


@pytest.fixture
def offload(project):
    project.pytester.makepyfile(SUITE)
    return project


def collected(project, *arguments):
    result = project.ask("--collect-only", "-q", *arguments, testbed="lab")
    return [line.split("[")[1].rstrip("]") for line in result.outlines if "::" in line]


def test_each_level_but_the_first_is_an_item_of_each_ip_version(offload):
    assert collected(offload) == OFF
    assert collected(offload, "--ipver=6") == OFF[1:]
    assert collected(offload, "-m", "arm(level='offload_off') and arm(ipver=4)") == OFF[:1]
    assert collected(offload, "-k", "ipv4 and offload_off") == OFF[:1]


def test_all_are_measured_in_the_same_blocks_and_each_is_compared_with_its_own_ip_version(offload):
    offload.network(slower=0.3)
    result = offload.run(testbed="lab")
    result.assert_outcomes(failed=2)
    assert offload.measured == [f"{WORKLOAD} ipv4-offload_off ipv4-offload_on ipv6-offload_off ipv6-offload_on"]
    pairs = {
        (event["test"]["arm"], event["reference"]["arm"]) for event in offload.kept() if event["event"] == "record"
    }
    assert pairs == {(f"ipv{ipver}-offload_off", f"ipv{ipver}-offload_on") for ipver in (4, 6)}
    for ipver in (4, 6):
        result.stdout.fnmatch_lines([f"IPv{ipver} offload on *", f"IPv{ipver} offload off *", "  verdict * exceeds"])


def test_one_item_alone_is_measured_with_its_reference_alone(offload):
    offload.network()
    offload.run("-k", "ipv6", testbed="lab").assert_outcomes(passed=1)
    assert offload.measured == [f"{WORKLOAD} ipv6-offload_off ipv6-offload_on"]


def test_levels_of_the_command_line_replace_those_of_the_marker_and_the_first_is_the_reference(offload):
    texts = collected(offload, "--offload=off,gro,nogso", "--ipver=4")
    assert texts == [f"lab-smtp-c1-1k-vs_offload_off-ipv4-offload_{level}" for level in ("gro", "nogso")]


def test_held_equal_it_is_a_level_of_the_workload_that_ids_name(offload):
    suite = SUITE.replace('@pytest.mark.compare("offload", transport=["native"])', "").replace(
        '["on", "off"]', '["off"]'
    )
    offload.pytester.makepyfile(suite)
    assert collected(offload, "--transport=native") == ["lab-smtp-c1-1k-offloadoff-ipv6"]
    assert collected(offload, "--offload=unchanged,nogro", "--transport=native") == [
        "lab-smtp-c1-1k-default-ipv6", "lab-smtp-c1-1k-offloadnogro-ipv6",
    ]  # fmt: skip


def test_hosts_that_are_one_machine_are_left_out(offload):
    offload.pytester.makefile(
        ".ini",
        hosts="""
[host here]
way = local
ipv4 = 127.0.0.1
ipv6 = ::1

[host there]
way = local
ipv4 = 127.0.0.1
ipv6 = ::1

[testbed own]
client = here
server = there
""",
    )
    result = offload.ask("--ipperf-hosts=hosts.ini", testbed="own")
    assert "testbed own has two hosts that are one machine" in " ".join(result.outlines)


def test_a_twin_is_that_of_the_reference_level(offload):
    offload.network()
    offload.run("--ipperf-twin=yes", "-m", "arm(twin=True)", testbed="lab").assert_outcomes(passed=1)
    assert offload.measured == [f"{WORKLOAD} ipv4-offload_on ipv4-offload_on-twin"]


def test_a_session_is_resumed_and_measured_by_workers_of_xdist(offload):
    offload.network(slower=0.3)
    first = offload.run("-n", "2", testbed="lab")
    first.assert_outcomes(failed=2)
    first.stdout.fnmatch_lines(["*plan: 1 workload, * 72 runs*"])
    again = offload.run("--ipperf-resume=last", testbed="lab")
    again.assert_outcomes(failed=2)
    assert len(offload.measured) == 1


def test_an_excess_is_confirmed_against_the_same_reference(offload):
    offload.network(slower=0.3)
    offload.run("--ipperf-confirm=yes", "--ipver=6", testbed="lab").assert_outcomes(failed=1)
    arms = "ipv6-offload_off ipv6-offload_on"
    assert offload.measured == [f"{WORKLOAD} {arms}", f"{WORKLOAD}-confirm {arms}"]


def test_beside_a_comparison_of_ip_versions_each_is_measured_apart(offload):
    offload.network(slower=0.3)
    offload.pytester.makepyfile(
        test_both=SUITE
        + """
@pytest.mark.smtp
@pytest.mark.levels(connections=[1])
def test_versions(measured, margin):
    assert measured.slowdown <= margin
"""
    )
    offload.run("test_both.py", "--transport=native", testbed="lab").assert_outcomes(failed=3)
    assert sorted(line.split()[0] for line in offload.measured) == ["lab-smtp-c1-1k", WORKLOAD]


@pytest.mark.parametrize(
    ("marker", "levels", "sentence"),
    [
        (
            'compare("offload")',
            'offload=["on"]',
            "marker compare: offload has the one level on; a comparison takes two",
        ),
        ('compare("offload")', "", "marker compare: offload has the one level unchanged; a comparison takes two"),
        ('compare("window")', "", "marker compare: 'window' is no factor of smtp; it has offload"),
        ("compare()", "", "marker compare takes the name of one factor"),
        ('compare("offload", transport="native")', 'offload=["on", "off"]', "transport='native' is no list of"),
        (
            'compare("offload")',
            'offload=["on", "of"]',
            "offload 'of' does not exist; there are unchanged, on, off, tso",
        ),
    ],
)
def test_a_mistake_is_told_at_collection(project, marker, levels, sentence):
    project.pytester.makepyfile(f"""
        import pytest
        @pytest.mark.smtp
        @pytest.mark.{marker}
        @pytest.mark.levels({levels})
        def test_smtp(measured, margin):
            assert measured.slowdown <= margin
    """)
    result = project.ask("--collect-only", "-q", testbed="lab")
    assert sentence in " ".join(result.outlines)


@pytest.mark.parametrize(
    ("testbed", "reason"),
    [
        ("loopback", "testbed loopback has no offloads to switch, as its packets never leave the kernel"),
        ("lab.100mbit", "testbed lab.100mbit counts the packets of its links one by one, which takes its offloads off"),
    ],
)
def test_testbeds_without_offloads_are_left_out(offload, testbed, reason):
    result = offload.ask(testbed=testbed)
    assert reason in " ".join(result.outlines)


def test_tunnels_are_left_out(offload):
    offload.pytester.makepyfile(SUITE.replace(', transport=["native"]', ""))
    result = offload.ask("--collect-only", testbed="lab")
    assert "left out: offload is that of the hosts' ports, and" in " ".join(result.outlines)
