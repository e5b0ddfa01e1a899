"""Passwords and mail: in no report, no command line, no environment, and in no file that other users can read."""

from __future__ import annotations

import base64
import contextlib
import os
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pytest_ipperf import cli
from pytest_ipperf.report.formats import FORMATS
from pytest_ipperf.servers import SERVERS
from tests.support.sessions.project_settings import ONE_EPOCH
from tests.system.security.watching import below

ROOT = Path(__file__).parents[3]
STRANGER = 65533  # nobody's mailboxes are nobody's, 65534
MAIL = "this mail is for its reader alone"
SUITE = f"""
    import dataclasses

    import pytest

    @pytest.fixture
    def server_state(server_state, protocol):
        mails = (b"Subject: one\\r\\n\\r\\n{MAIL}\\r\\n",) if protocol == "imap" else ()
        return dataclasses.replace(server_state, users=5, messages=mails)

    @pytest.mark.imap
    @pytest.mark.levels(connections=[2], payload=["1k"])
    def test_imap(measured, margin):
        assert measured.slowdown <= margin

    @pytest.mark.ftp
    @pytest.mark.levels(connections=[2], payload=["1k"])
    def test_ftp(measured, margin, server_state):
        assert server_state.users == 7
"""
# The one thing that the session is asked for, before anything has begun.
LEARN = """
    import os
    import pytest
    from pytest_ipperf.plugin.session.stash import session_of

    @pytest.hookimpl(trylast=True)
    def pytest_configure(config):
        with open(os.environ["IPPERF_TEST_LEARNT"], "w") as file:
            file.write(session_of(config).password)
"""
# As a stranger: every file that can be read, over and over, and which of them have one of the secrets.
WALK = """
import os, sys, time
root, *secrets = [each.encode() for each in sys.stdin.readline().split("\\t")]
secrets[-1] = secrets[-1].rstrip(b"\\n")
os.setgroups([]); os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))
print(flush=True)
seen, read = set(), 0
while os.path.exists(root) and not os.path.exists(root + b"/over"):
    time.sleep(0.02)
    for folder, _, files in os.walk(root):
        for name in files:
            path = os.path.join(folder, name)
            try:
                with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
                    data = file.read(1 << 20)
            except OSError:
                continue
            read += 1
            if any(secret in data for secret in secrets) and path not in seen:
                seen.add(path)
                print(path.decode(), flush=True)
print("read", read, flush=True)
"""


@dataclass
class Traces:
    """The traces of a session: its password, what it printed, its folder, and what others could read of it."""

    password: str
    said: str
    project: Path
    lines: set[str] = field(default_factory=set)
    environments: set[str] = field(default_factory=set)
    readable: list[str] = field(default_factory=list)
    read: int = 0


def forms(password):
    """How a password may be written down."""
    raw = password.encode()
    return [raw, raw.hex().encode(), base64.b64encode(raw)]


@contextlib.contextmanager
def scratch():
    """A folder that strangers may enter, on a short path."""
    with tempfile.TemporaryDirectory(prefix="ipperf-secrets-", dir="/tmp") as made:
        Path(made).chmod(0o755)
        yield Path(made)


def session(folder, servers):
    """One on real servers, with all reports that there are."""
    project, temporary, learnt = folder / "project", folder / "tmp", folder / "learnt"
    for each in (project, temporary):
        each.mkdir()
    learnt.touch(mode=0o600)
    (project / "test_suite.py").write_text(textwrap.dedent(SUITE))
    (project / "conftest.py").write_text(textwrap.dedent(LEARN) + ONE_EPOCH)
    (project / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    env = {**os.environ, "TMPDIR": str(temporary), "IPPERF_TEST_LEARNT": str(learnt), "PYTHONPATH": str(ROOT)}
    words = [
        sys.executable, "-m", "pytest", "-vv", "--setup-show", "--showlocals", "-pno:randomly", "-pno:cacheprovider",
        "--testbed=loopback", "--ipver=6", "--design=smoke", f"--ipperf-server={servers}", "--junitxml=junit.xml",
        "--alluredir=allure", "--ipperf-save=kept",
    ]  # fmt: skip
    with (project / "output").open("wb") as output:
        process = subprocess.Popen(words, cwd=project, env=env, stdout=output, stderr=output)
        try:
            return _watched(process, project, temporary, learnt)
        finally:
            process.kill()
            process.wait()


def _watched(process, project, temporary, learnt):
    end = time.monotonic() + 300
    while not (password := learnt.read_text()) and process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    assert password, (project / "output").read_text()
    traces = Traces(password, "", project)
    words = [sys.executable, "-c", WALK, str(STRANGER)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as walk:
        assert walk.stdin
        walk.stdin.write("\t".join([str(temporary), *(each.decode() for each in forms(password)), MAIL]) + "\n")
        walk.stdin.flush()
        looking = threading.Thread(target=_look, args=(process, traces))
        looking.start()
        try:
            process.wait(300)
        finally:
            (temporary / "over").touch()
        looking.join()
        *traces.readable, last = [line for line in walk.communicate(timeout=120)[0].splitlines() if line]
    traces.read = int(last.split()[1])
    traces.said = (project / "output").read_text()
    return traces


def _look(process, traces):
    """At command lines and environments of all its processes, as long as it runs."""
    while process.poll() is None:
        for pid in below(process.pid):
            for name, found in (("cmdline", traces.lines), ("environ", traces.environments)):
                with contextlib.suppress(OSError):
                    data = Path(f"/proc/{pid}/{name}").read_bytes()
                    if any(secret in data for secret in (*forms(traces.password), MAIL.encode())):
                        found.add(data.replace(b"\0", b" ").decode(errors="replace"))
        time.sleep(0.05)


EMBEDDED, REAL = "imapd,pyftpdlib", "dovecot,proftpd"


@pytest.fixture(scope="module", params=[EMBEDDED, pytest.param(REAL, marks=pytest.mark.evidence)])
def traces(request):
    if os.geteuid() != 0:
        pytest.skip("to look as a stranger needs root")
    for name in request.param.split(","):
        if why := SERVERS[name].missing():
            pytest.skip(f"{name} cannot run here: {why}")
    with scratch() as folder:
        yield session(folder, request.param)


def test_the_session_measured_and_failed(traces):
    """Or there would be no traces."""
    assert "= 1 failed, " in traces.said
    assert ", 1 unjudged in " in traces.said
    assert "server_state = ServerState(" in traces.said
    kept = {path.suffix for path in traces.project.rglob("*") if path.is_file()}
    assert {".jsonl", ".f64", ".html", ".xml", ".json", ".csv"} <= kept


def test_the_password_is_in_nothing_that_a_session_prints_or_keeps(traces):
    files = [path for path in traces.project.rglob("*") if path.is_file()]
    has = [path for path in files if any(secret in path.read_bytes() for secret in forms(traces.password))]
    assert len(traces.password) >= 16
    assert has == []


@pytest.mark.parametrize("form", FORMATS)
def test_the_password_is_in_no_export(traces, form, monkeypatch, capfdbinary):
    monkeypatch.chdir(traces.project)
    assert cli.main(["export", "kept", "--format", form]) == 0
    shown = capfdbinary.readouterr().out
    assert shown
    assert not [secret for secret in forms(traces.password) if secret in shown]


def test_neither_password_nor_mail_is_in_a_command_line_or_an_environment(traces):
    assert traces.lines == set()
    assert traces.environments == set()


def test_neither_password_nor_mail_is_in_a_file_that_a_stranger_can_read(traces):
    """Of the logs of servers, too, which everybody may read."""
    assert traces.read > 20  # there is what everybody may read
    assert traces.readable == []


def test_no_two_sessions_have_one_password(pytester):
    pytester.makeconftest("""
        from pytest_ipperf.plugin.session.stash import session_of

        def pytest_report_header(config):
            return f"password {session_of(config).password}"
    """)
    pytester.makepyfile("def test_it(): pass")
    found = {line for _ in range(5) for line in pytester.runpytest_inprocess().outlines if line.startswith("password ")}
    assert len(found) == 5


@pytest.mark.skipif(os.geteuid() != 0, reason="to look as a stranger needs root")
def test_what_a_stranger_could_read_would_be_found(tmp_path):
    """Or the tests above would prove nothing."""
    with scratch() as folder:
        (folder / "open").write_text("xsecretx")
        (folder / "closed").touch(mode=0o600)
        (folder / "closed").write_text("xsecretx")
        words = [sys.executable, "-c", WALK, str(STRANGER)]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as walk:
            assert walk.stdin
            assert walk.stdout
            walk.stdin.write(f"{folder}\tsecret\n")
            walk.stdin.flush()
            try:
                assert [walk.stdout.readline(), walk.stdout.readline()] == ["\n", f"{folder}/open\n"]
            finally:
                (folder / "over").touch()
            assert walk.stdout.readline().startswith("read ")
