"""A suite's own server state: accounts, messages, pages and content; and the errors for an invalid one."""

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

from pytest_ipperf.plugin.measure.outcome import NOTHING_DECIDED
from pytest_ipperf.protocols import application
from tests.support.sessions.project_settings import GLANCE

SHORT = ("--design=glance", "--ipperf-server=embedded", "-p", "no:cacheprovider")
HEAD = """
    import pytest
    from pytest_ipperf.core.portable.server_state import ServerState
"""
OWN = """
    MESSAGE = b"Subject: mine\\r\\n\\r\\n" + b"x" * 480 + b"\\r\\n"

    @pytest.fixture
    def server_state():
        return ServerState(content=MESSAGE, users={users}, password='o"wn', messages=(b"Subject: b\\r\\n\\r\\n",))

    @pytest.mark.imap
    @pytest.mark.levels(connections={connections}, payload=[{payload}])
    def test_imap_of_my_own(measured):
        assert measured.runs
        assert not any(run.failed for run in measured.runs)
"""
SIZE = len(b"Subject: mine\r\n\r\n") + 480 + 2


def suite(project, *parts, **values):
    text = textwrap.dedent(HEAD) + "".join(textwrap.dedent(part.format(**values)) for part in parts)
    for path in project.pytester.path.glob("test_*.py"):
        path.unlink()
    project.pytester.makepyfile(test_own=text)


def outcome(project, *arguments):
    project.pytester.makeconftest(GLANCE)
    return project.run(*SHORT, *arguments)


def test_accounts_and_messages_of_a_suite_are_served_for_all_its_levels(project):
    suite(project, OWN, users=12, connections=[1, 12], payload=SIZE)
    result = outcome(project)
    assert result.ret == NOTHING_DECIDED
    result.stdout.fnmatch_lines(["*imapd Python * (embedded)*"])
    result.stdout.no_fnmatch_line('*o"wn*')
    result.assert_outcomes(passed=2)


def test_the_example_of_the_suites_page_is_one(project):
    page = (Path(__file__).parents[3] / "docs/suites.md").read_text()
    (example,) = [
        code for code in re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE) if "LETTER" in code
    ]
    found: dict[str, Any] = {}
    exec(compile(example, "suites.md", "exec"), found)
    state = found["server_state"].__wrapped__()
    assert application("imap").filled(state, len(state.content)) == state
    project.pytester.makepyfile(test_own=example)
    (project.pytester.path / "test_the_example_of_the_suites_page_is_one.py").unlink()
    result = project.ask("--collect-only", "-q", "--ipver=6")
    ids = [line.split("[")[1] for line in result.outlines if "::" in line]
    assert ids == [f"loopback-imap-c{number}-{len(state.content)}-ipv6]" for number in (10, 200)]


def test_by_default_there_are_as_many_accounts_as_connections_and_at_least_five_hundred(project):
    suite(
        project,
        """
    @pytest.mark.imap
    @pytest.mark.levels(connections=[2], payload=["1k"])
    def test_imap(measured, server_state):
        assert server_state.users == 500
        assert len(server_state.password) == 16
        assert server_state.content == b""

    @pytest.mark.smtp
    @pytest.mark.levels(connections=[2], payload=["1k"])
    def test_smtp(measured, server_state):
        assert (server_state.users, server_state.password) == (0, "")
""",
    )
    result = outcome(project)
    assert result.ret == NOTHING_DECIDED
    result.stdout.no_fnmatch_line("*Error*")


def test_pages_and_a_page_of_its_own(project):
    suite(
        project,
        """
    PAGE = b"<html>" + b"y" * 200 + b"</html>"

    @pytest.fixture
    def server_state():
        return ServerState(content=PAGE, pages={{"/deep/other.html": b"<html></html>"}})

    @pytest.mark.http
    @pytest.mark.levels(connections=[2], payload=[{size}])
    def test_http_of_my_own(measured):
        assert not any(run.failed for run in measured.runs)
""",
        size=len(b"<html></html>") + 200,
    )
    assert outcome(project).ret == NOTHING_DECIDED


@pytest.mark.parametrize(
    ("payload", "users", "sentence"),
    [
        (
            1024,
            12,
            f"loopback-imap-c1-1k-ipv6: the content of server_state has {SIZE} bytes, not the payload's 1024; mark*",
        ),
        (SIZE, 0, "*imap logs in, and server_state has no users; give it some, and a password, as in ServerState*"),
    ],
)
def test_a_state_that_does_not_fit_is_told_before_anything_is_measured(project, payload, users, sentence):
    suite(project, OWN, users=users, connections=[1], payload=payload)
    result = outcome(project)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"*{sentence}*"])
    assert not [line for line in project.kept() if line["event"] == "run"]


def test_two_states_for_one_workload_are_told(project):
    suite(
        project,
        """
    @pytest.fixture(params=["a", "b"])
    def letter(request):
        return request.param

    @pytest.fixture
    def server_state(letter):
        return ServerState(users=3, password=letter)

    @pytest.mark.imap
    @pytest.mark.levels(connections=[1, 2], payload=["1k"])
    def test_imap(measured):
        pass
""",
    )
    result = outcome(project)
    result.assert_outcomes(passed=2, errors=2)  # each workload was measured with the first state
    sentence = (
        "another test of this workload wants another server_state; give the two different payloads, or measure them"
    )
    for connections in (1, 2):
        result.stdout.fnmatch_lines([f"*loopback-imap-c{connections}-1k-ipv6: {sentence} in two sessions*"])
