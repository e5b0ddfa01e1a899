"""Everything that can break on one testbed, broken: what is said, how soon, what comes of it, and what is left.

The short form has short deadlines and little patience. The long one, marked `evidence`, has those that a user has; its
table is that of docs/faults.md.
"""

import contextlib
import os
import re
import signal
import statistics
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

import pytest_ipperf
from pytest_ipperf.lab import namespaces
from pytest_ipperf.plugin.outcome import NOTHING_DECIDED

PAGE = Path(__file__).parents[2] / "docs" / "faults.md"
BOUND_S = {"short": 60.0, "long": 180.0}
"""Within which everything has to be told: against hanging, and no promise of speed."""

FORMS = pytest.mark.parametrize("form", ["short", pytest.param("long", marks=pytest.mark.evidence)])
HASTE = (
    ("agent/path.py", "_PROBE_TRIES, _PROBE_WAIT_S = 4, 0.5", "_PROBE_TRIES, _PROBE_WAIT_S = 2, 0.2"),
    ("lab/standing.py", "_BURST_S = 10.0", "_BURST_S = 2.0"),
    ("lab/link.py", "patience_s: float = 30.0", "patience_s: float = 5.0"),
    ("lab/link.py", "_STOP_S = 5.0", "_STOP_S = 1.0"),
)
ERRORS = pytest.ExitCode.TESTS_FAILED

needs_lab = pytest.mark.skipif(bool(namespaces.unusable()), reason=f"the lab cannot stand: {namespaces.unusable()}")


@dataclass(frozen=True)
class Fault:
    """What breaks, how it is made to, and the words that it is told in; `S` stands for how long patience lasts."""

    name: str
    how: str
    words: str
    blow: signal.Signals = signal.SIGSTOP


def each(faults):
    return pytest.mark.parametrize("fault", [pytest.param(it, id=it.name.replace(" ", "-")) for it in faults])


def deadline(form, short_s):
    """The reference comes second, which takes longest where nobody is served."""
    return ["--ipperf-deadline=10s" if form == "long" else f"--ipperf-deadline={short_s}s", "--ipperf-seed=1"]


def haste(form):
    return HASTE if form == "short" else ()


# --- the server -------------------------------------------------------------------------------------------------------

NONE = (
    r"the reference ipv4 completed none of \d+ connections \({}\), so there is nothing to compare with; "
    r"is the {} well\?$"
)
SERVER_FAULTS = [
    Fault(
        "the server never answers", "silent", NONE.format(r"talk deadline: \d+", r"server silent_\w+ 0 \(embedded\)")
    ),
    Fault(
        "the server resets in mid-transaction",
        "resets",
        NONE.format(r"talk reset: \d+", r"server resets_\w+ 0 \(embedded\)"),
    ),
    Fault("the server closes early", "closes", NONE.format(r"talk closed: \d+", r"server closes_\w+ 0 \(embedded\)")),
    Fault(
        "the server answers garbage",
        "garbage",
        NONE.format(r"protocol: reply .*: 1, .*, other kinds: \d+", r"server garbage_\w+ 0 \(embedded\)"),
    ),
]
REFUSED = r"^FAILURES \S+: 360 of 3600 connections by ipv6, {} of 3600 by ipv4; each counts as 10? s$"
TENTH = Fault("the server refuses every tenth connection", "tenth", REFUSED.format(360))
TENTH6 = Fault("the same over IPv6 only", "tenth6", REFUSED.format(0))
SLOW = Fault("the server is slow to accept", "slow", r"^dns / connect / first byte  ")


@needs_lab
@FORMS
@each(SERVER_FAULTS)
def test_a_server_that_serves_nobody_is_told(session, note, fault, form):
    servers = f"--ipperf-server={fault.how}_smtp,{fault.how}_http"
    inner = session("--design=smoke", "--connections=10", servers, *deadline(form, 0.3))
    assert inner.end() == ERRORS, inner.text
    assert inner.outcome == "2 errors"
    for protocol in ("http", "smtp"):
        told, seconds = inner.told(rf"^  broke off lab-{protocol}-c10-1k after \d of 8 runs: {fault.words}")
        assert seconds < BOUND_S[form]
        assert len(told) < 1000
    assert len(re.findall(f"^{fault.words}", inner.text, re.MULTILINE)) == 2  # with the errors once more
    runs = inner.kept_runs()
    assert 2 <= len(runs) <= 4
    assert not any(run["rows"] for run in runs)
    note(inner.row(fault.name, told, seconds))


@needs_lab
@FORMS
def test_a_server_that_refuses_every_tenth_ends_in_verdicts_with_the_failures_counted(session, note, form):
    """SMTP over both IP versions; HTTP over IPv6 alone."""
    inner = session("--design=quick", "--connections=10", "--ipperf-server=tenth_smtp,tenth6_http", *deadline(form, 1))
    assert inner.end() == ERRORS, inner.text
    assert inner.outcome == "1 failed, 1 passed"
    both, six = inner.events("record")
    assert (both["verdict"], six["verdict"]) == ("within", "exceeds")
    for side, lost in ((both["test"], 360), (both["reference"], 360), (six["test"], 360), (six["reference"], 0)):
        assert (side["attempted"], side["completed"], sum(side["failed"].values())) == (3600, 3600 - lost, lost)
        assert set(side["failed"]) <= {"connect reset", "talk reset"}
        # The restricted mean: each tenth connection counts as the deadline.
        assert lost / 3600 <= statistics.fmean(side["values"]) / both["deadline_s"] < lost / 3600 + 0.1
    for fault, record in ((TENTH, both), (TENTH6, six)):
        told, seconds = inner.told(fault.words.replace(r"\S+", record["cell"]))
        assert seconds < BOUND_S[form]
        note(inner.row(fault.name, told, seconds, f"`{record['verdict']}`"))
    inner.told(f"^EXCEEDS {six['cell']}: IPv6 is slower than IPv4 by")
    assert len(inner.kept_runs()) == 72


@needs_lab
@FORMS
def test_a_server_that_is_slow_to_accept_is_seen_in_the_first_byte(session, note, form):
    """The kernel accepts in its place, so nothing fails and the wait is in the figures, where it belongs."""
    inner = session("--design=smoke", "--connections=10", "--ipperf-server=slow_smtp", "-m", "smtp", *deadline(form, 5))
    assert inner.end() == NOTHING_DECIDED, inner.text
    assert inner.outcome == "1 inconclusive"
    (record,) = inner.events("record")
    for side in (record["test"], record["reference"]):
        assert (side["completed"], side["failed"]) == (60, {})
        assert side["phases"]["connect"] < 0.03 < side["phases"]["first_byte"]
    told, _ = inner.told(r"^  dns / connect / first byte  ")
    note(inner.row(SLOW.name, told, None))


# --- the name server --------------------------------------------------------------------------------------------------

HONEST = "server = Nameserver()\n"
LIES = "_honest = reply\n\n\ndef reply(query, known):\n    return {}\n\n\n" + HONEST
ELSEWHERE = '_honest(query, answers(dict.fromkeys(["mail.ipperf.test", "www.ipperf.test"], {})))'
RESOLVER_FAULTS = [
    Fault(
        "the resolver is silent",
        'b"" if query[12] else _honest(query, known)',
        r"arm ipv4 is not what it is called \(epoch 0\): expected an answer from the name server at 198\.18\.0\.2, "
        r"seen none$",
    ),
    Fault("the resolver knows nothing", "_honest(query, {})", NONE.format(r"dns NXDOMAIN: \d+", "name server")),
    Fault(
        "the resolver tells a wrong address, where nothing listens",
        ELSEWHERE.format(["198.18.0.1", "2001:2:0:10::1"]),
        r"arm ipv4 is not what it is called \(epoch 0, warm-up\): expected connections to 198\.18\.0\.2, "
        r"seen to 198\.18\.0\.1$",
    ),
    Fault(
        "the resolver answers AAAA to A, and A to AAAA",
        "_honest(query, {key: known[key[:-3] + bytes([key[-3] ^ 29]) + key[-2:]] for key in known})",
        NONE.format(r"dns no address: \d+", "name server"),
    ),
]
CLOTHES = Fault(
    "the resolver tells an IPv4 address in the clothes of IPv6",
    ELSEWHERE.format(["198.18.0.2", "::ffff:198.18.0.2"]),
    r"arm ipv6 is not what it is called \(epoch 0, warm-up\): expected connections to 2001:2:0:10::2, "
    r"seen to ::ffff:198\.18\.0\.2; it is measured no further$",
)


def lied_to(session, fault, form):
    changes = [("servers/nameserver.py", HONEST, LIES.format(fault.how)), *haste(form)]
    arguments = ("--design=smoke", "--connections=10", "--ipperf-server=embedded", "-m", "smtp", *deadline(form, 1))
    inner = session(*arguments, changes=changes)
    assert inner.end() == ERRORS, inner.text
    assert inner.outcome == "1 error"
    return inner


@needs_lab
@FORMS
@each(RESOLVER_FAULTS)
def test_a_resolver_at_fault_is_told(session, note, fault, form):
    inner = lied_to(session, fault, form)
    told, seconds = inner.told(rf"^  broke off lab-smtp-c10-1k after \d of 8 runs: {fault.words}")
    assert seconds < BOUND_S[form]
    assert not any(run["rows"] for run in inner.kept_runs())
    note(inner.row(fault.name, told, seconds))


@needs_lab
@FORMS
def test_a_resolver_that_leads_one_arm_astray_makes_that_arm_invalid(session, note, form):
    inner = lied_to(session, CLOTHES, form)
    told, seconds = inner.told(rf"^ipperf: {CLOTHES.words}")
    assert seconds < BOUND_S[form]
    assert {run["arm"] for run in inner.kept_runs() if run["rows"]} == {"ipv4"}
    note(inner.row(CLOTHES.name, told, seconds))


# --- agents and servers under way -------------------------------------------------------------------------------------

DIED = r"; its host went down, the link broke, or it was killed \(by the kernel, when memory runs out\)$"
SILENT = (
    "the agent gave no sign of life for S s during order '{}'; its host hangs or is overloaded, the link is broken, "
    "or it was stopped$"
)
MUTE = r"host server: {} runs but does not answer on 198\.18\.0\.2 port \d+: timed out; its log is empty$"
STRIKES = [
    Fault(
        "the client's agent is killed",
        "client",
        f"host client: the agent died during order 'load'{DIED}",
        signal.SIGKILL,
    ),
    Fault(
        "the server's agent is killed",
        "server",
        f"host server: the agent died (while host client needed it|during order 'quiet'){DIED}",
        signal.SIGKILL,
    ),
    Fault("the client's agent is stopped", "client", f"host client: {SILENT.format('load')}"),
    Fault("the server's agent is stopped", "server", f"host server: {SILENT.format('quiet')}"),
    Fault(
        "the server is killed",
        "aiosmtpd",
        "host server: aiosmtpd was killed by signal 9; its log is empty$",
        signal.SIGKILL,
    ),
    Fault("the server is stopped", "aiosmtpd", MUTE.format("aiosmtpd")),
    Fault("the resolver is stopped", "nameserver", MUTE.format("nameserver")),
]
PATIENCE_S = {"client": {"short": "2.5", "long": "20"}, "server": {"short": "5", "long": "30"}}


@needs_lab
@FORMS
@each(STRIKES)
def test_what_is_struck_in_the_midst_of_a_run_is_told(session, note, fault, form):
    """At one connection at a time: a run has 300 bursts then, which is time to be struck in."""
    arguments = ("--design=quick", "--connections=1", "--ipperf-server=embedded", "-m", "smtp", *deadline(form, 0.5))
    inner = session(*arguments, changes=haste(form))
    inner.wait_for_runs(1)
    inner.strike(inner.victim(fault.how), fault.blow)
    assert inner.end() == ERRORS, inner.text
    assert inner.outcome == "1 error"
    words = fault.words.replace(" S s ", f" {PATIENCE_S.get(fault.how, {}).get(form)} s ")
    told, seconds = inner.told(rf"^  broke off lab-smtp-c1-1k after \d of 36 runs: {words}")
    assert seconds < BOUND_S[form]
    runs = inner.kept_runs()
    assert runs[0]["rows"] > 0
    assert f" after {len(runs)} of 36 runs: " in told
    note(inner.row(fault.name, told, seconds))


PAUSE_S = 0.05
STARVED = Fault("the client's agent is kept from its processor", "client", "^nothing$")


@contextlib.contextmanager
def starved(inner, runs):
    """From when an epoch stands until so many runs of it are done, its client's agent is stopped again and again."""
    ended = threading.Event()

    def follow():
        stood = 0
        while not ended.wait(0.02):
            if len(inner.events("epoch")) > stood:
                stood += 1
                starve(inner.victim(STARVED.how), stood * runs)

    def starve(pid, until):
        with contextlib.suppress(OSError):
            while len(inner.events("run")) < until and not ended.wait(0.002):
                os.kill(pid, signal.SIGSTOP)
                time.sleep(PAUSE_S)
                os.kill(pid, signal.SIGCONT)
            # The command that has entered the node stops itself when its child is stopped.
            time.sleep(PAUSE_S)
            os.kill(inner.parent(pid), signal.SIGCONT)

    thread = threading.Thread(target=follow)
    thread.start()
    yield
    ended.set()
    thread.join()


@needs_lab
@FORMS
def test_an_agent_that_is_starved_is_seen_in_how_late_its_loop_comes_round(session, note, form):
    """Its figures are too high, and the records tell why. What is to be said of it is to be asked for here."""
    arguments = ("--design=smoke", "--connections=100", "--ipperf-server=embedded", "-m", "http", *deadline(form, 5))
    inner = session(*arguments)
    with starved(inner, 4):
        assert inner.end() == NOTHING_DECIDED, inner.text
    assert inner.outcome == "1 inconclusive"
    assert max(run["proof"]["lag_s"] for run in inner.kept_runs()) > PAUSE_S
    note(inner.row(STARVED.name, "nothing", None))


# --- the records and the clock ----------------------------------------------------------------------------------------

FULL = Fault(
    "the disk for the records is full",
    'mount -t tmpfs -o size=48k none "$0" && { "$@"; status=$?; cp -r "$0" kept; exit $status; }',
    r"records: \S+/runs/\S+ cannot be written \(No space left on device\); what was written before is kept; name "
    r"another folder with --ipperf-records$",
)
CLOCK = Fault(
    "the clock is set, by +1 h and by -1 h",
    """

import time


def _set(tell, unit):
    def told(*which):
        hours = 0
        if which in ((), (time.CLOCK_REALTIME,)):
            try:
                with open("{sign}") as sign:
                    hours = int(sign.read() or 0)
            except FileNotFoundError:
                pass
        return tell(*which) + 3600 * hours * unit

    return told


time.time, time.time_ns = _set(time.time, 1), _set(time.time_ns, 10**9)
time.clock_gettime, time.clock_gettime_ns = _set(time.clock_gettime, 1), _set(time.clock_gettime_ns, 10**9)
""",
    "^nothing$",
)


@needs_lab
@FORMS
def test_a_full_disk_is_told_and_what_was_written_is_whole(session, note, pytester, form):
    """The disk has a few pages, in a mount namespace of the session's own."""
    (pytester.path / "small").mkdir()
    user = ["--user", "--map-root-user"] if os.geteuid() else []
    inner = session(
        "--design=quick", "--connections=10", "--ipperf-server=embedded", "--ipperf-records=small", *deadline(form, 5),
        entry=["unshare", *user, "--mount", "sh", "-c", FULL.how, "small"],
    )  # fmt: skip
    assert inner.end() == ERRORS, inner.text
    assert inner.outcome == "2 errors"
    runs = inner.kept_runs()
    assert len(runs) > 1
    inner.broke_at = runs[-1]["at"]  # it was the next one that found no room
    told, seconds = inner.told(rf"^  broke off lab-smtp-c10-1k after {len(runs)} of 36 runs: {FULL.words}")
    assert seconds < BOUND_S[form]
    note(inner.row(FULL.name, told, seconds))


@needs_lab
@FORMS
def test_a_clock_that_is_set_changes_no_figure(session, note, pytester, form):
    """By an hour forwards, then by two back: whatever asks for the time of day is told so, on every host.

    It stands for a clock that is set, which this machine's must not be. What the kernel stamps goes on as before.
    """
    sign = pytester.path / "hours"
    source = Path(pytest_ipperf.__file__).read_text()
    inner = session(
        "--design=paper", "--connections=10,20", "--ipperf-server=embedded", "-m", "http", *deadline(form, 5),
        changes=[("__init__.py", source, source + CLOCK.how.format(sign=sign))],
    )  # fmt: skip
    for hours in ("1", "-1"):  # both in the first workload: all is built anew for the second
        inner.wait_for_runs(len(inner.events("run")) + 2)
        sign.write_text(hours)
    now = time.time()
    assert inner.end() == NOTHING_DECIDED, inner.text
    assert inner.outcome == "2 inconclusive"
    runs = inner.kept_runs()
    assert len(runs) == 44
    assert {round((run["at"] - now) / 3600) for run in runs} == {-1, 0, 1}
    assert all(0 < run["value"] < 5 and not run["failed"] for run in runs)
    assert [run["started_at"] for run in runs] == sorted(run["started_at"] for run in runs)
    took = [int(seconds) for seconds in re.findall(r"  measured lab-http-\S+: 22 runs in (\d+) s", inner.text)]
    assert len(took) == 2
    assert max(took) < 600
    note(inner.row(CLOCK.name, "nothing", None))


# --- the page ---------------------------------------------------------------------------------------------------------


def test_the_page_has_a_row_for_each_fault_with_the_words_that_are_said():
    faults = [*SERVER_FAULTS, TENTH, TENTH6, SLOW, *RESOLVER_FAULTS, CLOTHES, *STRIKES, STARVED, FULL, CLOCK]
    lines = [line.strip("| \n").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| the ")]
    rows = {cells[0]: cells[1].strip("` ") for cells in lines}
    assert list(rows) == [fault.name for fault in faults]
    for fault in faults:
        words = fault.words.replace(" S s ", f" {PATIENCE_S.get(fault.how, {}).get('long')} s ")
        assert re.search(words, rows[fault.name]), fault.name
