"""Cells and questions of tests."""

import pytest

from pytest_ipperf.protocols import PROTOCOLS

IDS = ["loopback-smtp-c1-1k-ipv6", "loopback-smtp-c10-1k-ipv6"]


def ids(result):
    return [line.split("[")[1].rstrip("]") for line in result.outlines if "::" in line]


def test_the_reference_is_measured_with_the_selected_arms(project):
    project.network()
    result = project.run("--ipver=6")
    result.assert_outcomes(passed=2, deselected=0)
    assert project.measured == ["loopback-smtp-c1-1k ipv4 ipv6", "loopback-smtp-c10-1k ipv4 ipv6"]


def test_collect_only_measures_nothing_and_prints_the_plan_with_its_forecast(project):
    project.network()
    result = project.run("--collect-only", "-q", "--design=standard")
    assert ids(result) == IDS
    result.stdout.fnmatch_lines(
        [
            "ipperf: plan: 2 workloads, 1 to 5 looks of 6 epochs x 2 blocks (design standard), 72 to 360 runs, *",
            "ipperf:   loopback-smtp-c1-1k: ipv4, ipv6; 36 to 180 runs, about * to *",
        ]
    )
    assert project.measured == []


def test_levels_of_the_command_line_replace_the_suites(project):
    result = project.ask("--collect-only", "-q", "--connections=2,50", "--connections=7", "--payload=4k")
    assert ids(result) == [f"loopback-smtp-c{n}-4k-ipv6" for n in (2, 50, 7)]


def test_another_reference_turns_the_question_round(project):
    project.network()
    result = project.run("--reference=ipv6", "--connections=1", "-v")
    result.stdout.fnmatch_lines(["*[[]loopback-smtp-c1-1k-ipv4] PASSED*"])
    assert project.measured == ["loopback-smtp-c1-1k ipv4 ipv6"]


def test_an_arm_that_the_testbed_cannot_have_is_left_out_with_the_reason(project):
    project.network()
    result = project.run("--transport=native,tunnel")
    result.assert_outcomes(passed=2, deselected=0)
    said = [line for line in result.outlines if "left out:" in line]
    assert said == ["left out: testbed loopback has no tunnel: its client and server are one host"]
    result.stdout.fnmatch_lines(["*= measurements =*", said[0]])


@pytest.mark.parametrize(
    ("asked", "selected", "deselected", "left_out"),
    [
        ((), 5, 0, ["loopback has no tunnel, isatap: its client and server are one host"]),
        (("-m", "smtp"), 2, 3, ["loopback has no tunnel, isatap: its client and server are one host"]),
        (("-m", "arm(transport='native')"), 5, 0, []),
        (("-k", "test_dns and not isatap"), 3, 2, ["loopback has no tunnel: its client and server are one host"]),
        (("--transport=native",), 5, 0, []),
        (("-m", "dns", "--ipver=6", "--transport=isatap"), 0, 5,
         ["loopback has no isatap: its client and server are one host"]),
        (("test_more.py::test_dns[loopback-dns-c1-34-ipv6]",), 1, 0, []),
        (("test_more.py::test_dns[loopback-dns-c1-34-ipv6-tunnel]",), 0, 0,
         ["loopback has no tunnel: its client and server are one host"]),
        (("test_more.py::test_dns",), 3, 0, ["loopback has no tunnel, isatap: its client and server are one host"]),
    ],
)  # fmt: skip
def test_only_what_was_asked_for_is_left_out_aloud_and_only_what_can_run_is_deselected(
    project, asked, selected, deselected, left_out
):
    project.pytester.makepyfile(
        test_more="import pytest\n@pytest.mark.dns\n@pytest.mark.levels(payload=['34'])\ndef test_dns(measured): pass\n"
    )
    result = project.ask("--collect-only", "-q", *asked)
    assert [line for line in result.outlines if "left out:" in line] == [
        f"ipperf: left out: testbed {each}" for each in left_out
    ]
    assert sum("::" in line for line in result.outlines) == selected
    counts = result.outlines[-1]
    assert (f"({deselected} deselected)" in counts) == bool(deselected), counts


def test_of_last_failed_nothing_is_left_out_that_did_not_fail(project):
    project.network(slower=0.3)
    project.run("--connections=1").assert_outcomes(failed=1)
    result = project.run("--lf", "--connections=1", "--collect-only", "-q")
    assert ids(result) == IDS[:1]
    assert not [line for line in result.outlines if "left out:" in line]


def test_under_xdist_what_is_left_out_is_told_once(project):
    project.network()
    result = project.run("-n", "1", "--connections=1")
    result.assert_outcomes(passed=1)
    said = [line for line in result.outlines if "left out:" in line]
    assert said == ["left out: testbed loopback has no tunnel, isatap: its client and server are one host"]


def test_items_are_made_of_the_selected_testbeds_and_of_those_in_node_ids_alone(project):
    beds = "".join(f"[testbed bed{n}]\nclient = here\nserver = here\n" for n in range(2000))
    (project.pytester.path / "hosts.ini").write_text(f"{beds}[host here]\nipv4 = 127.0.0.1\nipv6 = ::1\n")
    project.pytester.makeconftest(
        "def pytest_itemcollected(item): print('made', item.callspec.params['testbed'], item.callspec.id)"
    )
    file = "test_items_are_made_of_the_selected_testbeds_and_of_those_in_node_ids_alone.py"
    one = f"{file}::test_smtp_response_time[bed7-smtp-c10-1k-ipv6]"
    for asked, testbed, made in (((), "bed5,bed1", {"bed1", "bed5"}), ((one,), "", {"bed7"})):
        result = project.ask("--collect-only", "-q", "-s", *asked, testbed=testbed)
        assert {line.split()[1] for line in result.outlines if line.startswith("made")} == made
    assert ids(project.ask("--collect-only", "-q", one, testbed="")) == ["bed7-smtp-c10-1k-ipv6"]
    assert project.ask("--collect-only", "-q", one, testbed="bed3").ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_a_node_id_and_a_file_measure_on_the_testbeds_of_each(project):
    file = "test_a_node_id_and_a_file_measure_on_the_testbeds_of_each.py"
    project.pytester.makepyfile(test_more="import pytest\n@pytest.mark.http\ndef test_page(measured): pass\n")
    project.pytester.makepyprojecttoml('[tool.pytest.ini_options]\nipperf_testbed = ["loopback"]\n')
    asked = (f"{file}::test_smtp_response_time[lab-smtp-c10-1k-ipv6]", "test_more.py", "--connections=10")
    result = project.ask("--collect-only", "-q", *asked, "--transport=native", testbed="")
    assert sorted(ids(result)) == ["lab-smtp-c10-1k-ipv6", "loopback-http-c10-1k-ipv6"]


def test_of_transports_that_lack_for_the_same_reason_it_is_told_once(project):
    result = project.ask("--collect-only", "-q", "--connections=1")
    lines = [line for line in result.outlines if "left out" in line]
    assert lines == ["ipperf: left out: testbed loopback has no tunnel, isatap: its client and server are one host"]


def test_only_arms_that_cannot_be_leave_nothing_and_say_why(project):
    result = project.ask("--transport=isatap")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result.stdout.fnmatch_lines(["ipperf: left out: testbed loopback has no isatap: *"])


def test_one_node_id_measures_one_workload(project):
    project.network()
    name = "test_one_node_id_measures_one_workload.py::test_smtp_response_time[loopback-smtp-c10-1k-ipv6]"
    project.pytester.runpytest_subprocess(name).assert_outcomes(passed=1)
    assert project.measured == ["loopback-smtp-c10-1k ipv4 ipv6"]


def test_the_id_names_a_client_other_than_the_usual_one(project):
    named = [name.replace("-smtp-", "-smtp-library-") for name in IDS]
    assert ids(project.ask("--collect-only", "-q", "--client=library")) == named
    file = "test_the_id_names_a_client_other_than_the_usual_one.py"
    one = f"{file}::test_smtp_response_time[{named[1]}]"
    assert ids(project.ask("--collect-only", "-q", "--client=library", one)) == named[1:]
    project.network()
    result = project.run("--client=library", "-n", "1")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["ipperf: plan: 2 workloads, *", "testbed loopback, *, client library, *"])
    assert project.measured == ["loopback-smtp-library-c1-1k ipv4 ipv6", "loopback-smtp-library-c10-1k ipv4 ipv6"]
    assert [line["cell"] for line in project.kept() if line["event"] == "record"] == named


def test_k_and_m_select_as_pytests_users_expect(project):
    project.network()
    project.run("-k", "c10").assert_outcomes(passed=1, deselected=1)
    project.run("-m", "smtp and arm(ipver=6)", "--connections=1").assert_outcomes(passed=1, deselected=0)
    assert project.run("-m", "smpt").ret == pytest.ExitCode.USAGE_ERROR


def test_two_tests_of_one_workload_share_its_measurement(project):
    project.network()
    project.pytester.makepyfile(
        test_more="""
        import pytest

        @pytest.mark.smtp
        @pytest.mark.levels(connections=[1, 10])
        def test_failures(measured):
            assert measured.failures.estimate == 0
            assert measured.effect.n_epochs == 6
            assert len(measured.runs) == 36
        """
    )
    project.run("-p", "randomly").assert_outcomes(passed=4, deselected=0)
    assert sorted(project.measured) == ["loopback-smtp-c1-1k ipv4 ipv6", "loopback-smtp-c10-1k ipv4 ipv6"]


def test_a_test_may_ask_for_its_factors(project):
    project.network()
    project.pytester.makepyfile(
        """
        import pytest

        @pytest.mark.http
        @pytest.mark.levels(connections=[3], payload=["2k"])
        def test_factors(measured, margin, testbed, connections, payload, ipver, transport):
            assert (testbed, connections, payload, ipver, transport) == ("loopback", 3, 2048, 6, "native")
            assert str(measured.cell) == "loopback-http-c3-2k-ipv6"
            assert str(margin) == "10%,0.5ms"
            assert measured.slowdown <= margin
        """
    )
    project.run().assert_outcomes(passed=1, deselected=0)


def test_design_paper_takes_the_full_grid_where_the_suite_has_one(project):
    project.pytester.makepyfile(
        """
        import pytest

        @pytest.mark.http
        @pytest.mark.levels(connections=[1])
        @pytest.mark.grid(connections=[1, 500, 1000])
        def test_http(measured):
            pass
        """
    )
    assert len(ids(project.ask("--collect-only", "-q"))) == 1
    assert len(ids(project.ask("--collect-only", "-q", "--design=paper"))) == 3


@pytest.mark.parametrize(
    ("marks", "sentence"),
    [
        ("", f"has no protocol marker; it needs exactly one of {', '.join(PROTOCOLS)}"),
        ("@pytest.mark.http\n@pytest.mark.smtp", "has the protocol markers http, smtp; it needs exactly one"),
        (
            "@pytest.mark.http\n@pytest.mark.levels(threads=[1])",
            "marker levels of http takes only the keywords connections",
        ),
        ("@pytest.mark.http\n@pytest.mark.levels(connections=['many'])", "level 'many' is not a number of connections"),
        ("@pytest.mark.http\n@pytest.mark.levels(payload=['1 parsec'])", "size '1 parsec' is not a whole number of by"),
        ("@pytest.mark.smtp\n@pytest.mark.levels(payload=[10])", "payload 10 is too small for smtp"),
        ("@pytest.mark.smtp\n@pytest.mark.margin('10')", "share '10' is not a percentage such as 10%"),
        (
            "@pytest.mark.smtp\n@pytest.mark.margin()",
            "marker margin has no share; use margin(",
        ),
        (
            "@pytest.mark.smtp\n@pytest.mark.margin('10%', '5%')",
            "marker margin takes one share and, if needed, at_least and failures: marg",
        ),
        (
            "@pytest.mark.smtp\n@pytest.mark.margin('10%', failures='0pp')",
            "margin of failures '0pp' is not a number of percentage points above 0, such as 1pp",
        ),
        ("@pytest.mark.smtp\n@pytest.mark.tail('1pp')", "margin '1pp' has a floor in percentage points"),
    ],
)
def test_a_suite_that_makes_no_sense_is_told_so_in_a_sentence(project, marks, sentence):
    project.pytester.makepyfile(f"import pytest\n{marks}\ndef test_it(measured): pass\n")
    result = project.ask()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines([f"*test_it: *{sentence.replace('[', '[[]')}*"])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_a_size_that_a_protocol_cannot_have_leaves_out_that_protocol_alone(project):
    asked = "import pytest\n" + "".join(
        f"@pytest.mark.{name}\n@pytest.mark.levels(connections=[1], payload=[100])\n"
        f"def test_{name}(measured, margin): pass\n"
        for name in ("dns", "http")
    )
    project.pytester.makepyfile(asked)
    result = project.ask("--collect-only", "-q", "--payload=10k", "--testbed=loopback")
    assert ids(result) == ["loopback-http-c1-10k-ipv6"]
    result.stdout.fnmatch_lines(["ipperf: left out: payload 10240 is too large for dns, *"])


def test_a_test_with_parameters_of_our_names_is_nobodys_measurement(project):
    project.pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("cell", [1])
        @pytest.mark.parametrize("testbed", ["x"])
        def test_mine(cell, testbed):
            assert cell == 1
        """
    )
    project.ask().assert_outcomes(passed=1)


def test_a_reference_that_the_testbed_cannot_have_leaves_nothing_to_measure(project):
    result = project.ask("--reference=ipv6-tunnel")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result.stdout.fnmatch_lines(["ipperf: left out: testbed loopback has no tunnel, isatap: *"])


@pytest.mark.parametrize("levels", ["connections=10", "connections=[]", "payload='1k'"])
def test_levels_that_are_no_list_are_told(project, levels):
    project.pytester.makepyfile(
        f"import pytest\n@pytest.mark.http\n@pytest.mark.levels({levels})\ndef test_it(measured): pass"
    )
    result = project.ask()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*test_it: levels * are not a list such as *"])


def test_a_hosts_ini_of_another_tool_hurts_only_whoever_measures(project):
    (project.pytester.path / "hosts.ini").write_text("[web]\nweb1.example.org\n")
    for asked in ((), ("--collect-only",), ("-n2",)):
        result = project.ask(*asked, testbed="")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines(["ERROR: *hosts.ini, line 2: *"])
    one = (
        "test_a_hosts_ini_of_another_tool_hurts_only_whoever_measures.py::test_smtp_response_time[lab-smtp-c1-1k-ipv6]"
    )
    project.ask(one, testbed="").stdout.fnmatch_lines(["*hosts.ini, line 2: *"])
    project.pytester.makepyfile("def test_plain(): pass")
    project.ask(testbed="").assert_outcomes(passed=1)
    project.ask().stderr.fnmatch_lines(["ERROR: *hosts.ini, line 2: *"])


def test_what_is_too_much_for_a_host_is_left_out_with_the_reason(project):
    hosts = "[host here]\nipv4 = 127.0.0.1\nipv6 = ::1\nmax_connections = 5\nmax_rate = 10mbit\n"
    (project.pytester.path / "hosts.ini").write_text(f"[testbed small]\nclient = here\nserver = here\n{hosts}")
    flows = "import pytest\n@pytest.mark.{0}\n@pytest.mark.levels({1})\ndef test_{0}(measured): pass\n\n"
    project.pytester.makepyfile(
        test_flows=flows.format("udp", "rate=['10mbit', '11mbit']") + flows.format("tcp", "window=['64k']"),
    )
    asked = ("--ipver=6", "--transport=native", "--collect-only")
    result = project.ask(*asked, "-q", testbed="small")
    found = sorted(line.partition("[")[2] for line in result.outlines if "::" in line)
    assert found == ["small-smtp-c1-1k-ipv6]", "small-udp-c1-1400-10mbit-ipv6]"]
    lines = [line for line in project.ask(*asked, testbed="small").outlines if line.startswith("ipperf: left out")]
    rate = "testbed small takes 10 Mbit/s at most, by max_rate of host here, and"
    assert lines == [
        f"ipperf: left out: {rate} tcp uses all that it gets",
        f"ipperf: left out: {rate} udp is to send more",
        "ipperf: left out: testbed small takes 5 connections at most, by max_connections of host here",
    ]


def test_the_header_names_the_hosts_of_testbeds_of_the_users_own(project):
    hosts = "".join(f"[host {name}]\nipv4 = 192.0.2.{at}\n" for at, name in enumerate(("alpha", "beta", "gamma"), 1))
    beds = "[testbed office]\nclient = alpha\nserver = beta\n[testbed crowd]\nclient = alpha, gamma\nserver = beta\n"
    (project.pytester.path / "hosts.ini").write_text(beds + hosts.replace("ipv4", "way = ssh\nssh = x.test\nipv4"))
    result = project.ask("--collect-only", testbed="office,crowd,loopback")
    result.stdout.fnmatch_lines(["ipperf *: testbed office (alpha -> beta), crowd (alpha, gamma -> beta), loopback; *"])


def test_flows_are_left_out_where_clients_are_several(project):
    hosts = "".join(
        f"[host {name}]\nway = ssh\nssh = {name}\nipv4 = 192.0.2.{at}\nipv6 = 2001:db8::{at}\n"
        for at, name in enumerate(("alpha", "beta", "gamma"), start=1)
    )
    (project.pytester.path / "hosts.ini").write_text(f"[testbed crowd]\nclient = alpha, gamma\nserver = beta\n{hosts}")
    project.pytester.makepyfile(test_flows="import pytest\n@pytest.mark.rtt\ndef test_rtt(measured): pass\n")
    result = project.ask("--collect-only", "--transport=native", testbed="crowd")
    lines = [line for line in result.outlines if line.startswith("ipperf: left out")]
    why = "testbed crowd has 2 clients, and rtt runs between two hosts; give it a testbed with one of them"
    assert lines == [f"ipperf: left out: {why}"]
