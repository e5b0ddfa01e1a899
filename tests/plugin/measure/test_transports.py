"""The IPv6 arms through tunnels: which are measured, by which backend, and what happens if one leads elsewhere."""

import os
import subprocess
import sys
import textwrap

import pytest

from pytest_ipperf.lab.inventory.builtin import BUILTIN, with_rate
from pytest_ipperf.lab.inventory.model import AUTO
from pytest_ipperf.lab.netns.namespaces import unusable
from pytest_ipperf.lab.tunnels.backend_choice import lab_backend
from pytest_ipperf.plugin.measure.outcome import NOTHING_DECIDED
from tests.support.sessions.project_settings import GLANCE

NEEDS_RATE = not lab_backend(BUILTIN["lab"], AUTO)[0]
# With a rate that limits nothing, for tunnels that need one.
LAB = "lab.1gbit" if NEEDS_RATE else "lab"
SHORT = ("--design=glance", "--connections=2", "--ipperf-server=embedded")
RATED = "lab.100mbit-smtp-c10-1k"
# Root of the machine as an ordinary user, who may still read everything.
ORDINARY = [] if os.geteuid() else ["unshare", "--user", "--map-user=1000", "--map-group=1000", "--"]
MISCONFIGURED = """
    import subprocess

    from pytest_ipperf.lab.epoch import live_testbed as epoch
    from pytest_ipperf.lab.epoch.build import build_testbed

    def inside(made, host, line):
        subprocess.run([*made.entries[host.name], "ip", "-batch", "-"], input=line, text=True, check=True)

    @epoch.contextlib.contextmanager
    def misbuilt(testbed, **how):
        with build_testbed(testbed, **how) as made:
            server = testbed.paths["tunnel"].server
            inside(made, testbed.client, f"route add {server}/128 via {testbed.router.ipv6} dev eth0")
            inside(made, testbed.router, f"route add {server}/128 via {testbed.server.ipv6} dev eth1")
            yield made

    epoch.build_testbed = misbuilt
"""

pytestmark = pytest.mark.skipif(bool(unusable()), reason=f"the lab cannot be built: {unusable()}")


def carrier(name):
    """Return the backend of a testbed with a rate."""
    testbed = with_rate(name, BUILTIN)
    assert testbed
    return lab_backend(testbed, AUTO)[0]


def events(project, kind):
    return [line for line in project.kept() if line["event"] == kind]


def node_id(project, cell):
    (file,) = project.pytester.path.glob("test_*.py")
    return f"{file.name}::test_smtp_response_time[{cell}]"


def ids(result):
    return [line.split("[")[1].rstrip("]") for line in result.outlines if "::" in line]


# --- measured for real ------------------------------------------------------------------------------------------------


def test_ipv6_is_every_arm_of_it_beside_the_reference(project):
    project.pytester.makeconftest(GLANCE)
    result = project.run(*SHORT, "--ipver=6", testbed=LAB)
    assert result.ret == NOTHING_DECIDED
    result.stdout.fnmatch_lines(["SMTP response time *", "IPv4 *", "IPv6 *", "IPv6 tunnel *", "IPv6 isatap *"])
    runs = events(project, "run")
    arms = ["ipv4", "ipv6", "ipv6-tunnel", "ipv6-isatap"]
    assert sorted(run["arm"] for run in runs) == sorted(2 * arms)
    assert all(run["contradictions"] == [] and run["failed"] == {} and run["rows"] == 30 for run in runs)
    carriers = {"ipv6-tunnel": {"client", "router", "server"}, "ipv6-isatap": {"client", "router"}}
    for run in runs:
        met = {host for host, counts in run["proof"]["protocol41"].items() if counts["in"] + counts["out"]}
        assert met == carriers.get(run["arm"], set())
    peers = {run["arm"]: set(run["proof"]["peers"]) for run in runs}
    assert all(len(found) == 1 for found in peers.values())
    assert len(set.union(*peers.values())) == len(arms)
    (complete,) = events(project, "complete")
    assert complete["network"]["backends"] == dict.fromkeys(("tunnel", "isatap"), carrier("lab.1gbit"))
    assert complete["testbed"]["paths"]["tunnel"]["carriers"] == ["client", "router", "server"]


def test_a_tunnel_that_leads_to_the_native_path_is_invalid_and_the_other_arms_are_judged(project):
    project.pytester.makeconftest(f"{GLANCE}\n{textwrap.dedent(MISCONFIGURED)}")
    result = project.run(*SHORT, "--transport=native,tunnel", testbed=LAB)
    result.assert_outcomes(errors=1)
    device = "expected a route by the tunnel device ipperf-6in4 at the client, seen device eth0"
    sentence = f"arm ipv6-tunnel is not what it is called (epoch 0): {device}"
    result.stdout.fnmatch_lines([
        f"ipperf: {sentence}; it is measured no further",
        f"*ERROR at setup of test_smtp_response_time[[]{LAB}-smtp-c2-1k-ipv6-tunnel[]]*",
        sentence,
        "IPv6 *",
        "*1 error, 1 unjudged in *",
    ])  # fmt: skip
    result.stdout.no_fnmatch_line("*Traceback*")
    assert {run["arm"] for run in events(project, "run")} == {"ipv4", "ipv6"}
    assert [record["cell"] for record in events(project, "record")] == [f"{LAB}-smtp-c2-1k-ipv6"]


@pytest.fixture
def ordinary(project):
    """Runs an inner pytest as a user without rights."""
    project.pytester.makeconftest(GLANCE)
    asked = [
        *ORDINARY,
        sys.executable,
        "-c",
        "from pytest_ipperf.lab.netns.namespaces import unusable; print(unusable())",
    ]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    if done.returncode or done.stdout.strip():
        pytest.skip(f"an ordinary user cannot have a lab here: {done.stdout.strip() or done.stderr.strip()}")
    argv = [*ORDINARY, sys.executable, "-m", "pytest", "-p", "no:randomly", *SHORT]

    def run(*arguments):
        return subprocess.run(
            [*argv, *arguments], cwd=project.pytester.path, capture_output=True, text=True, check=False
        ).stdout

    return run


def test_without_root_tunnels_are_left_out_with_what_would_help(ordinary):
    said = ordinary("--collect-only", "-q")
    assert "test_smtp_response_time[lab-smtp-c2-1k-ipv6]" in said
    if "left out" not in said:
        pytest.skip("this kernel's own driver carries tunnels for an ordinary user, too")
    (line,) = [line for line in said.splitlines() if "left out" in line]
    assert line.startswith("ipperf: left out: testbed lab cannot have tunnel, isatap here: kernel: ")
    assert "; ebpf: only root of the machine may load BPF programs; " in line
    assert line.endswith("; userspace: it needs links with a rate, and testbed lab.100mbit has one")


def test_without_root_tunnels_of_a_lab_with_a_rate_are_measured(project, ordinary):
    """At a rate that this machine reaches even when busy."""
    said = ordinary("--testbed=lab.10mbit", "--transport=tunnel,isatap")
    assert "2 unjudged" in said, said
    runs = events(project, "run")
    assert {run["arm"] for run in runs} == {"ipv4", "ipv6-tunnel", "ipv6-isatap"}
    assert all(run["contradictions"] == [] and run["failed"] == {} for run in runs)
    assert set(events(project, "complete")[0]["network"]["backends"].values()) <= {"kernel", "userspace"}
    assert {record["rate_bit_s"] for record in events(project, "record")} == {1e7}


# --- selected ---------------------------------------------------------------------------------------------------------


def test_transports_select_arms(project):
    tunnelled = project.ask("--collect-only", "-q", "--transport=tunnel,isatap", "--connections=1", testbed=LAB)
    assert ids(tunnelled) == [f"{LAB}-smtp-c1-1k-ipv6-tunnel", f"{LAB}-smtp-c1-1k-ipv6-isatap"]
    tunnelled.stdout.fnmatch_lines([f"ipperf:   {LAB}-smtp-c1-1k: ipv4, ipv6-isatap, ipv6-tunnel; *"])


@pytest.mark.parametrize("backend", ["kernel", "ebpf", "userspace"])
def test_a_backend_that_cannot_carry_them_leaves_the_tunnels_out(project, backend):
    why = lab_backend(BUILTIN["lab"], backend)[1]
    result = project.ask("--collect-only", "-q", "--connections=1", f"--ipperf-backend={backend}", testbed="lab")
    arms = ["ipv6"] if why else ["ipv6", "ipv6-tunnel", "ipv6-isatap"]
    assert ids(result) == [f"lab-smtp-c1-1k-{arm}" for arm in arms]
    lines = [line for line in result.outlines if "left out" in line]
    assert lines == ([f"ipperf: left out: testbed lab cannot have tunnel, isatap here: {why}"] if why else [])


def test_the_id_of_a_cell_tells_the_rate_of_its_testbed(project):
    project.network()
    result = project.run(node_id(project, f"{RATED}-ipv6-tunnel"), testbed="")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["testbed lab.100mbit at 100 Mbit/s, *", "IPv4 *", "IPv6 tunnel *"])
    assert project.measured == [f"{RATED} ipv4 ipv6-tunnel"]


@pytest.mark.parametrize("name", ["lab.100mbit", "pair.1.5mbit"])
def test_parameters_of_the_suites_own_may_stand_beside_it(project, name):
    project.pytester.makepyfile(
        """
        import pytest

        @pytest.mark.smtp
        @pytest.mark.levels(connections=[1])
        @pytest.mark.parametrize("mine", ["a-b", "c"])
        def test_smtp_response_time(measured, mine):
            pass
        """
    )
    for cell in (f"a-b-{name}-smtp-c1-1k-ipv6", f"{name}-smtp-c1-1k-ipv6-a-b"):
        found = ids(project.ask("--collect-only", "-q", node_id(project, cell), testbed=""))
        assert found in ([cell], [])
        if found:
            return
    pytest.fail("neither order of parameters is found")


def test_last_failed_takes_a_cell_with_a_rate_along(project):
    project.network(slower=0.2)
    only = ("--connections=10", "--transport=tunnel")
    project.run(*only, testbed="lab.100mbit").assert_outcomes(failed=1)
    project.network()
    project.run(*only, "--lf", testbed="lab.100mbit").assert_outcomes(passed=1)
    assert project.measured == [f"{RATED} ipv4 ipv6-tunnel"] * 2


def test_the_workers_of_xdist_know_a_testbed_with_a_rate(project):
    project.network()
    project.run("-n", "2", "--transport=tunnel", testbed="lab.100mbit").assert_outcomes(passed=2)
    named = [node_id(project, f"{RATED}-ipv6-{transport}") for transport in ("tunnel", "isatap")]
    result = project.run("-n", "2", "-v", *named, testbed="")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["ipperf: plan: 1 workload, *"])
    assert project.measured[2:] == [f"{RATED} ipv4 ipv6-isatap ipv6-tunnel"]


def test_an_ini_file_may_name_a_testbed_with_a_rate(project):
    project.pytester.makepyprojecttoml(
        '[tool.pytest.ini_options]\nipperf_testbed = ["pair.100mbit"]\nipperf_backend = "auto"\n'
    )
    found = ids(project.ask("--collect-only", "-q", "--connections=1", "--transport=native", testbed=""))
    assert found == ["pair.100mbit-smtp-c1-1k-ipv6"]


# --- resumed ----------------------------------------------------------------------------------------------------------


def test_a_session_is_resumed_by_the_same_backend_alone(project):
    only = (*SHORT, "--transport=tunnel")
    project.pytester.makeconftest(GLANCE)
    testbed = "pair.1gbit" if NEEDS_RATE else "pair"
    assert project.run(*only, testbed=testbed).ret == NOTHING_DECIDED
    assert {run["arm"] for run in events(project, "run")} == {"ipv4", "ipv6-tunnel"}
    result = project.run(*only, "--ipperf-resume=last", testbed=testbed)
    assert result.ret == NOTHING_DECIDED
    result.stdout.fnmatch_lines(["ipperf: 1 of 1 workloads are reused from session *", "IPv6 tunnel *"])
    assert len(events(project, "complete")) == 1
    facts = {(record["backend"], record["rate_bit_s"], record["one_machine"]) for record in events(project, "record")}
    assert facts == {(carrier("pair.1gbit"), 1e9 if NEEDS_RATE else 0.0, True)}
    result = project.run(*only, "--ipperf-resume=last", "--ipperf-backend=kernel", testbed=testbed)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([
        "ERROR: --ipperf-resume: session * had --ipperf-backend nothing, and this one has kernel; use the same, or *"
    ])  # fmt: skip


def test_a_testbed_of_another_rate_has_workloads_of_its_own(project):
    project.network()
    only = ("--connections=10", "--transport=tunnel")
    project.run(*only, testbed="lab.100mbit").assert_outcomes(passed=1)
    project.run(*only, "--ipperf-resume=last", testbed="lab.10mbit").assert_outcomes(passed=1)
    assert project.measured == [f"lab.{rate}mbit-smtp-c10-1k ipv4 ipv6-tunnel" for rate in (100, 10)]
