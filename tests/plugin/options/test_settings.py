"""Every invalid value gets one message that names the option, the value and a remedy."""

import sys

import pytest

from pytest_ipperf.core.design.design import DESIGNS
from pytest_ipperf.protocols import application, applications


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--ipver=5"], "--ipver: '5' is not an IP version; use 4 or 6"),
        (["--transport=teredo"], "--transport: 'teredo' does not exist; there are isatap, native, tunnel"),
        (
            ["--testbed=office"],
            "--testbed: testbed 'office' does not exist; there are lab, pair, loopback, and labs with any rate*",
        ),
        (
            ["--testbed=lab.100"],
            "--testbed: rate '100' is not a number of bits a second such as 512kbit, 100mbit or 1gbit",
        ),
        (["--testbed=pair,pair.0mbit"], "--testbed: rate '0mbit' is not a number of bits a second such as 512kbit, *"),
        (["--testbed=lab.99999999gbit"], "--testbed: rate '99999999gbit' is not between 256kbit and 100gbit"),
        (
            ["--testbed=loopback.1mbit"],
            (
                "--testbed: testbed 'loopback.1mbit' cannot have a rate, as testbed loopback is not a lab; an "
                "example is lab.100mbit"
            ),
        ),
        (
            ["--testbed=office.1mbit"],
            "--testbed: testbed 'office.1mbit' does not exist; there are *labs with any rate, such as lab.100m*",
        ),
        (
            ["--ipperf-backend=nonsense"],
            "--ipperf-backend: 'nonsense' does not exist; there are auto, kernel, ebpf, u*",
        ),
        (["--connections=0"], "--connections: '0' is not a number of connections such as 1, 10 or 100"),
        (["--connections=1,,2"], "--connections: '' is not a number of connections such as 1, 10 or 100"),
        (
            ["--payload=big"],
            "--payload: size 'big' is not a whole number of bytes such as 512, 1k or 2m, and no preset of * kharche",
        ),
        (["--design=fast"], f"--design: design 'fast' does not exist; there are {', '.join(DESIGNS)}"),
        (["--reference=ipv5"], "--reference: arm 'ipv5' is not of the form ipv4, ipv6 or ipv6-TRANSPORT"),
        (["--reference=ipv6-teredo"], "--reference: 'teredo' does not exist; there are isatap, native, tunnel"),
        (["--margin="], "--margin: it has no value; give one, or leave the option out"),
        (["--ipperf-records="], "--ipperf-records: '' is not a folder such as .ipperf"),
        (["-o", "ipperf_records="], "ini ipperf_records: '' is not a folder such as .ipperf"),
        (["--margin=10"], "--margin: share '10' is not a percentage such as 10%"),
        (["--margin=10%,5"], "--margin: time '5' is not a number with a unit, such as 0.5ms, 10s or 5min"),
        (["--client=fat"], "--client: 'fat' does not exist; there are lean, library"),
        (["--arrivals=200"], "--arrivals: '200' is neither closed nor a rate such as 200/s"),
        (["--arrivals=0/s"], "--arrivals: '0/s' is neither closed nor a rate such as 200/s"),
        (["--arrivals=inf/s"], "--arrivals: 'inf/s' is neither closed nor a rate such as 200/s"),
        (["--ipperf-workers=0"], "--ipperf-workers: '0' is not a number of processes from 1 to 64"),
        (["--ipperf-server=exim"], "--ipperf-server: 'exim' does not exist; there are auto, real, embedded, *postfix*"),
        (["--ipperf-server=bind,"], "--ipperf-server: '' does not exist; there are auto, real, embedded, *postfix*"),
        (
            ["--ipperf-server=real,bind,embedded"],
            "--ipperf-server: real and embedded exclude each other; combine only one of them with names of servers",
        ),
        (
            ["--ipperf-hosts=nowhere.ini"],
            "*nowhere.ini: cannot be read (No such file or directory); name an inventory*",
        ),
        (
            ["--ipperf-seed=lucky"],
            "--ipperf-seed: 'lucky' is not a whole number, zero or more, of at most 4000 digits",
        ),
        (["--ipperf-budget=5"], "--ipperf-budget: time '5' is not a number with a unit, such as 0.5ms, 10s or 5min"),
        (["--ipperf-twin=both"], "--ipperf-twin: 'both' does not exist; there are no, yes"),
        (["--ipperf-inconclusive=pass"], "--ipperf-inconclusive: 'pass' does not exist; there are report, fail"),
        (["--ipperf-deadline=soon"], "--ipperf-deadline: time 'soon' is not a number with a unit*"),
        (["--ipver=4", "--transport=tunnel"], "IPv4 with transport 'tunnel' does not exist; IPv4 is always native*"),
        (
            ["--ipver=4"],
            "the filters leave only the reference arm ipv4, which is compared with nothing; add --ipver=6*",
        ),
    ],
)
def test_a_wrong_value_is_refused_in_a_sentence(project, arguments, sentence):
    result = project.ask(*arguments, testbed="")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {sentence}"])
    result.stderr.no_fnmatch_line("*Traceback*")


def test_every_setting_has_an_ini_twin(project):
    project.network()
    project.pytester.makepyprojecttoml(
        """
        [tool.pytest.ini_options]
        ipperf_design = "standard"
        ipperf_reference = "ipv6"
        ipperf_margin = "25%"
        ipperf_seed = "7"
        ipperf_records = "kept"
        ipperf_testbed = ["loopback"]
        """
    )
    result = project.pytester.runpytest_subprocess("--connections=1", "-p", "no:randomly")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["ipperf *: testbed loopback; design standard; reference ipv6; *; seed 7", "*25 %*"])
    assert list((project.pytester.path / "kept" / "runs").iterdir())


def test_arrivals_and_workers_are_part_of_the_workload_and_of_the_tables(project):
    project.network()
    result = project.run("--connections=1", "--ipver=6", "--arrivals=200/s", "--ipperf-workers=2", "-v")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([
        "ipperf *; client lean by 2 workers, 200 arrivals a second; *",
        "*[[]loopback-smtp-c1-1k-r200-w2-ipv6[]] *",
        "SMTP response time* in milliseconds, by connections",
        "*, client lean by 2 workers, 200 arrivals a second, payload 1k, *",
    ])  # fmt: skip


def test_the_command_line_beats_the_ini_file(project):
    project.pytester.makepyprojecttoml('[tool.pytest.ini_options]\nipperf_design = "standard"\n')
    project.ask("--collect-only", "--design=smoke").stdout.fnmatch_lines(["ipperf *; design smoke; *"])


def test_an_inventory_that_the_ini_file_names_must_be_there(project):
    project.pytester.makepyprojecttoml('[tool.pytest.ini_options]\nipperf_hosts = "nowhere.ini"\n')
    project.ask(testbed="").stderr.fnmatch_lines(["ERROR: *nowhere.ini: cannot be read (No such file or directory); *"])


def test_a_wrong_ini_value_names_the_ini_key(project):
    project.pytester.makepyprojecttoml('[tool.pytest.ini_options]\nipperf_design = "fast"\n')
    project.ask().stderr.fnmatch_lines(["ERROR: ini ipperf_design: design 'fast' does not exist; *"])


def test_the_help_teaches(project):
    text = " ".join(project.ask("--help").stdout.str().split())
    assert "quick (6 epochs x 2 blocks: a person at a terminal)" in text
    assert "standard (1 to 5 looks of 6 epochs x 2 blocks: a decision)" in text
    assert "ini: ipperf_design; default quick" in text
    assert "--ipperf-margin=MARGIN" in text
    assert "such as 10%,0.5ms of a time, 1pp or 10%,0.5pp of a share, 5%+headers of a throughput; replaces" in text
    for protocol in map(application, applications()):
        for package in protocol.packages or ("asyncio",):
            assert package.partition(">=")[0] in text.partition("--ipperf-client")[2].partition("--ipperf-arrivals")[0]


def test_a_session_without_measurements_says_nothing_of_them(project):
    project.pytester.makepyfile("def test_plain(): pass")
    result = project.ask()
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*= measurements =*")
    assert not (project.pytester.path / ".ipperf").exists()


def test_whoever_measures_nothing_does_not_wait_for_scipy(project):
    project.pytester.makepyfile(
        "import sys\ndef test_plain(): assert not {'scipy', 'pytest_ipperf.lab.agents.client'} & set(sys.modules)"
    )
    # In a new process, not forked from one that has imported it.
    project.pytester.run(sys.executable, "-m", "pytest", "-p", "no:randomly").assert_outcomes(passed=1)


@pytest.mark.parametrize("blocked", [".ipperf", ".ipperf/runs"])
def test_a_file_where_the_records_should_lie_is_a_sentence(project, blocked):
    project.pytester.makepyprojecttoml("[tool.pytest.ini_options]\nipperf_baseline = 'nightly'\n")
    path = project.pytester.path / blocked
    path.parent.mkdir(exist_ok=True)
    path.write_text("")
    result = project.ask("--collect-only", "-q")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = filter(None, result.errlines)
    assert line.startswith("ERROR: ")
    assert ".ipperf" in line


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("accepted.jsonl", "ERROR: */kept/accepted.jsonl:1: 'so be it' is not an acceptance (*"),
        (
            "nights/20261122T013000Z-aa/verdict.json",
            "ERROR: night 20261122T013000Z-aa: *verdict.json is not a verdict (*",
        ),
    ],
)
def test_what_a_night_is_decided_by_is_checked_where_its_records_are(project, name, sentence):
    """Only pytest knows its rootdir and its ini file; without --ipperf-exceeds=flag no night is decided."""
    project.pytester.makepyprojecttoml('[tool.pytest.ini_options]\nipperf_records = "kept"\n')
    path = project.pytester.path / "kept" / name
    path.parent.mkdir(parents=True)
    path.write_text("so be it\n")
    assert project.ask("--collect-only", "--ipperf-save=night").ret == 0
    result = project.ask("--collect-only", "--ipperf-save=night", "--ipperf-exceeds=flag")
    result.stderr.fnmatch_lines([sentence])
    assert result.ret == 4


def test_the_names_of_a_nights_second_sessions_are_its_own(project):
    result = project.ask("--collect-only", "--ipperf-save=night.fresh")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --ipperf-save: names that end in '.fresh', as 'night.fresh' does, are *"])
