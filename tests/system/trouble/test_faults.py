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
from pytest_ipperf.lab.netns import namespaces
from pytest_ipperf.plugin.measure.outcome import NOTHING_DECIDED
from tests.system.trouble.hours import CLOCK_BY_HOURS

PAGE = Path(__file__).parents[3] / "docs" / "faults.md"
BOUND_S = {"short": 120.0, "long": 240.0}
"""Within which everything has to be reported: against hanging, and no promise of speed."""

FORMS = pytest.mark.parametrize("form", ["short", pytest.param("long", marks=pytest.mark.evidence)])
HASTE = (
    ("lab/runs/multi_client.py", "_BURST_S = 10.0", "_BURST_S = 2.0"),
    ("lab/agents/rpc_method.py", "PATIENCE_S = 30.0", "PATIENCE_S = 5.0"),
    ("lab/agents/client.py", "_STOP_S = 5.0", "_STOP_S = 1.0"),
    ("agent/servers/server_process.py", "_TERM_S = 2.0", "_TERM_S = 0.5"),
)
# Only where no answer comes, as a busy machine lets others wait as long.
PROBING = (("agent/paths/routes.py", "_PROBE_TRIES, _PROBE_WAIT_S = 6, 0.5", "_PROBE_TRIES, _PROBE_WAIT_S = 2, 0.2"),)
SMALL = (
    ("core/design/design.py", "run_connections: int = 300", "run_connections: int = 30"),
    ("core/design/design.py", 'name="quick", epochs=6, blocks=2', 'name="quick", epochs=5, blocks=1'),
)
# So many that none of 400 and 40 of 400 failures differ by more than 1 pp.
MORE = (("core/design/design.py", "run_connections: int = 300", "run_connections: int = 80"), *SMALL[1:])
ERRORS = pytest.ExitCode.TESTS_FAILED

needs_lab = pytest.mark.skipif(bool(namespaces.unusable()), reason=f"the lab cannot be built: {namespaces.unusable()}")


@dataclass(frozen=True)
class Fault:
    """What breaks, how it is made to, and the words that report it; `S` stands for how long patience lasts."""

    name: str
    how: str
    words: str
    blow: signal.Signals = signal.SIGSTOP


def each(faults, far=()):
    """Those of them that are broken on hosts behind ssh too (`test_far_faults.py`) go to the evidence in any form."""
    return pytest.mark.parametrize(
        "fault",
        [
            pytest.param(it, id=it.name.replace(" ", "-"), marks=[pytest.mark.evidence] * (it.how in far))
            for it in faults
        ],
    )


def deadline(form, short_s):
    """The reference comes second, which takes longest where nobody is served."""
    return ["--ipperf-deadline=10s" if form == "long" else f"--ipperf-deadline={short_s}s", "--ipperf-seed=1"]


def haste(form, changes=HASTE):
    return changes if form == "short" else ()


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
# Of them it is known before a measurement whether they let their accounts in.
ACCOUNTS = r"host server: {}_\w+ 0 \(embedded\) does not hold all of its 10 accounts \({}\)$"
KINDS = [r"talk deadline: 10", r"talk reset: 10", r"talk closed: 10", r"protocol: reply .*: 1, .*, other kinds: 7"]
ACCOUNT_FAULTS = [
    Fault(f"{fault.name} (FTP, IMAP)", fault.how, ACCOUNTS.format(fault.how, kind))
    for fault, kind in zip(SERVER_FAULTS, KINDS, strict=True)
]
REFUSED = r"^FAILURES \S+: (360 of 3600|40 of 400) connections by ipv6, {} by ipv4; each counts as 10 s$"
NONE_REFUSED = "0 of (3600|400)"
TENTH = Fault("the server refuses every tenth connection", "tenth", REFUSED.format(r"\1"))
TENTH6 = Fault("the same over IPv6 only", "tenth6", REFUSED.format(NONE_REFUSED))
DENIED = Fault("the server refuses every tenth log-in (IMAP's `NO`)", "denies", REFUSED.format(r"\1"))
DENIED6 = Fault("the same over IPv6 only (FTP's `530`)", "denies6", REFUSED.format(NONE_REFUSED))
SLOW = Fault("the server is slow to accept", "slow", r"^dns / connect / first byte  ")


@needs_lab
@FORMS
@each(SERVER_FAULTS, far={"silent"})
def test_a_server_that_serves_nobody_is_told(session, note, fault, form):
    servers = ",".join(f"{fault.how}_{protocol}" for protocol in ("ftp", "imap", "smtp"))
    inner = session(
        "--design=smoke", "--connections=10", f"--ipperf-server={servers}", "-m", "ftp or imap or smtp",
        *deadline(form, 0.3 if fault.how == "silent" else 10),
    )  # fmt: skip
    assert inner.end() == ERRORS, inner.text
    assert inner.outcome == "3 errors"
    (with_accounts,) = (each for each in ACCOUNT_FAULTS if each.how == fault.how)
    for it, protocols in ((fault, ("smtp",)), (with_accounts, ("ftp", "imap"))):
        for protocol in protocols:
            report, seconds = inner.find_report(rf"^  broke off pair-{protocol}-c10-1k after \d of 8 runs: {it.words}")
            assert seconds < BOUND_S[form]
            assert len(report) < 1000
        errors = re.findall(f"^{it.words}", inner.text, re.MULTILINE)
        assert len(errors) == len(protocols)  # with the errors once more
        note(inner.row(it.name, report, seconds, "error"))
    runs = inner.kept_runs()
    assert 1 <= len(runs) <= 2
    assert not any(run["rows"] for run in runs)


DIES = Fault(
    "the server dies at the first log-in", "dies", "host server: dies_imap exited with status 3; its log is empty$"
)


@needs_lab
@FORMS
def test_a_server_that_dies_before_anything_is_measured_is_told(session, note, form):
    inner = session("--design=smoke", "--connections=10", "--ipperf-server=dies_imap", "-m", "imap", *deadline(form, 5))
    assert inner.end() == ERRORS, inner.text
    assert inner.outcome == "1 error"
    report, seconds = inner.find_report(rf"^  broke off pair-imap-c10-1k after 0 of 8 runs: {DIES.words}")
    assert seconds < BOUND_S[form]
    note(inner.row(DIES.name, report, seconds))


TENTHS = [(TENTH, "smtp"), (TENTH6, "http")], [(DENIED, "imap"), (DENIED6, "ftp")]
WORDS = {
    "smtp": {"connect reset", "talk reset"},
    "http": {"connect reset", "talk reset"},
    "imap": {"protocol: reply 'NO [UNAVAILABLE] try later' to LOGIN"},
    "ftp": {"protocol: reply '530 Login incorrect.' to PASS"},
}


@needs_lab
@FORMS
@pytest.mark.parametrize(
    "faults",
    [
        pytest.param(TENTHS[0], id="connections"),
        pytest.param(TENTHS[1], id="log-ins", marks=pytest.mark.evidence),
    ],
)
def test_a_server_that_refuses_every_tenth_ends_in_verdicts_with_the_failures_counted(session, note, faults, form):
    """One protocol over both IP versions, the other over IPv6 alone.

    The margin of the response time is wide and the failures alone decide: their numbers are the same on a busy machine.
    """
    protocols = [protocol for _, protocol in faults]
    servers = ",".join(f"{fault.how}_{protocol}" for fault, protocol in faults)
    inner = session(
        "--design=quick", "--connections=10", f"--ipperf-server={servers}", "-m", " or ".join(protocols),
        "--margin=400%", *deadline(form, 10), changes=MORE if form == "short" else [],
    )  # fmt: skip
    assert inner.end() == ERRORS, inner.text
    assert inner.outcome == "1 failed, 1 inconclusive"
    both, six = sorted(inner.events("record"), key=lambda record: protocols.index(record["protocol"]))
    assert (both["verdict"], six["verdict"]) == ("inconclusive", "exceeds")
    # Among so many failures 3600 connections do not show that the arms differ by less than 1 pp.
    assert [each["verdict"] for each in both["components"]] == ["inconclusive"]
    attempted = 3600 if form == "long" else 400
    tenth = attempted // 10
    for record, other in ((both, tenth), (six, 0)):
        for side, lost in ((record["test"], tenth), (record["reference"], other)):
            assert (side["attempted"], side["completed"], sum(side["failed"].values())) == (
                attempted, attempted - lost, lost,
            )  # fmt: skip
            assert set(side["failed"]) <= WORDS[record["protocol"]]
            # The restricted mean: each tenth connection counts as the deadline.
            share = lost / attempted
            assert share <= statistics.fmean(side["values"]) / record["deadline_s"] < share + 0.1
    for (fault, _), record in zip(faults, (both, six), strict=True):
        report, seconds = inner.find_report(fault.words.replace(r"\S+", record["cell"]))
        assert seconds < BOUND_S[form]
        note(inner.row(fault.name, report, seconds, f"`{record['verdict']}`"))
    inner.find_report(f"^EXCEEDS {six['cell']}: IPv6 has more failed connections than IPv4 by")
    assert len(inner.kept_runs()) == (72 if form == "long" else 40)


DIFFERS6 = Fault(
    "the server gives other content of the same length over IPv6 only",
    "differs6",
    # A run in which nothing completes ends early.
    r"^FAILURES \S+: ([1-9]\d+) of \1 connections by ipv6, 0 of (3600|150) by ipv4; each counts as 10 s; "
    r"content: expected 'ck brown fox jum' at offset \d+ of 1024 bytes, seen 'et brown fox jum'$",
)


@needs_lab
@FORMS
def test_a_server_that_gives_other_content_is_never_within(session, note, form):
    """Its replies have the right size and come as fast as the right ones."""
    inner = session(
        "--design=quick", "--connections=10", "--ipperf-server=differs6_http", "-m", "http", *deadline(form, 10),
        changes=SMALL if form == "short" else [],
    )  # fmt: skip
    assert inner.end() == ERRORS, inner.text
    assert inner.outcome == "1 failed"
    (record,) = inner.events("record")
    assert record["verdict"] == "exceeds"
    test, reference = record["test"], record["reference"]
    assert (test["completed"], reference["completed"]) == (0, reference["attempted"])
    assert [kind.partition(": ")[0] for kind in test["failed"]] == ["content"]
    report, seconds = inner.find_report(DIFFERS6.words)
    note(inner.row(DIFFERS6.name, report, seconds, "`exceeds`"))


@needs_lab
@FORMS
def test_a_server_that_is_slow_to_accept_is_seen_in_the_first_byte(session, note, form):
    """The kernel accepts in its place, so nothing fails and the wait is in the figures, where it belongs."""
    inner = session("--design=smoke", "--connections=10", "--ipperf-server=slow_smtp", "-m", "smtp", *deadline(form, 5))
    assert inner.end() == NOTHING_DECIDED, inner.text
    assert inner.outcome == "1 unjudged"
    (record,) = inner.events("record")
    for side in (record["test"], record["reference"]):
        assert (side["completed"], side["failed"]) == (60, {})
        assert 0.06 < side["phases"]["first_byte"] > 2 * side["phases"]["connect"]
    report, _ = inner.find_report(r"^  dns / connect / first byte  ")
    note(inner.row(SLOW.name, report, None))


# --- the client -------------------------------------------------------------------------------------------------------

CLIENT_FAULTS = [
    Fault(
        "the client may have too few file descriptors",
        "prlimit",
        "host client: 100 connections need 164 file descriptors in a process here, and no more than 150 are allowed "
        r"\(ulimit -H -n\); allow 164, or measure with fewer connections or more workers$",
    ),
    Fault(
        "the client has too few ports",
        "ports",
        "host client: 100 connections at once need as many ports, and there are 50 from 40000 to 40049 "
        r"\(net\.ipv4\.ip_local_port_range\); widen the range, or measure with fewer connections$",
    ),
]
FEW_PORTS = (
    "lab/netns/veth.py",
    '"net/ipv4/ip_local_port_range": "30000 65535"',
    '"net/ipv4/ip_local_port_range": "40000 40049"',
)


@needs_lab
@FORMS
@each(CLIENT_FAULTS)
def test_a_client_that_cannot_have_so_many_sockets_is_told_before_it_begins(session, note, fault, form):
    inner = session(
        "--design=smoke", "--connections=100", "--ipperf-server=embedded", "-m", "http", *deadline(form, 5),
        entry=["prlimit", "--nofile=150:150"] if fault.how == "prlimit" else [],
        changes=[FEW_PORTS] if fault.how == "ports" else [],
    )  # fmt: skip
    assert inner.end() == ERRORS, inner.text
    assert inner.outcome == "1 error"
    report, seconds = inner.find_report(rf"^  broke off pair-http-c100-1k after 0 of 8 runs: {fault.words}")
    assert seconds < BOUND_S[form]
    note(inner.row(fault.name, report, seconds))


# --- the name server --------------------------------------------------------------------------------------------------

HONEST = "server = Nameserver()\n"
LIES = "_honest = reply\n\n\ndef reply(query, known, **_):\n    return {}\n\n\n" + HONEST
ELSEWHERE = '_honest(query, answers(dict.fromkeys(["mail.ipperf.test", "www.ipperf.test"], {})))'
MISLED = "content: dns: expected"
RESOLVER_FAULTS = [
    Fault(
        "the resolver is silent",
        'b"" if query[12] else _honest(query, known)',
        r"arm ipv4 is not what it is called \(epoch 0\): expected an answer from the name server at 198\.18\.0\.2, "
        r"seen none$",
    ),
    Fault("the resolver answers NXDOMAIN", "_honest(query, {})", NONE.format(r"dns NXDOMAIN: \d+", "name server")),
    Fault(
        "the resolver returns a wrong address, where nothing listens",
        ELSEWHERE.format(["198.18.0.1", "2001:2:0:10::1"]),
        NONE.format(rf"{MISLED} A 198\.18\.0\.2 for mail\.ipperf\.test, seen A 198\.18\.0\.1: \d+", "name server"),
    ),
    Fault(
        "the resolver answers AAAA to A, and A to AAAA",
        "_honest(query, {key: known[key[:-3] + bytes([key[-3] ^ 29]) + key[-2:]] for key in known})",
        NONE.format(rf"{MISLED} A 198\.18\.0\.2 for mail\.ipperf\.test, seen AAAA 2001:2:0:10::2: \d+", "name server"),
    ),
]
UNANSWERED = RESOLVER_FAULTS[0]
MAPPED = Fault(
    "the resolver returns an IPv4-mapped address for AAAA",
    ELSEWHERE.format(["198.18.0.2", "::ffff:198.18.0.2"]),
    r"FAILURES pair-smtp-c10-1k-ipv6: (\d+) of \1 connections by ipv6, 0 of \1 by ipv4; each counts as \S+ s; "
    rf"{MISLED} AAAA 2001:2:0:10::2 for mail\.ipperf\.test, seen AAAA ::ffff:198\.18\.0\.2$",
)


def lied_to(session, fault, form, status=ERRORS, outcome="1 error"):
    changes = [("servers/nameserver.py", HONEST, LIES.format(fault.how))]
    changes += haste(form, PROBING) if fault is UNANSWERED else ()
    arguments = ("--design=smoke", "--connections=10", "--ipperf-server=embedded", "-m", "smtp", *deadline(form, 10))
    inner = session(*arguments, changes=changes)
    assert inner.end() == status, inner.text
    assert inner.outcome == outcome
    return inner


@needs_lab
@FORMS
@each(RESOLVER_FAULTS)
def test_a_resolver_at_fault_is_told(session, note, fault, form):
    inner = lied_to(session, fault, form)
    report, seconds = inner.find_report(rf"^  broke off pair-smtp-c10-1k after \d of 8 runs: {fault.words}")
    assert seconds < BOUND_S[form]
    assert not any(run["rows"] for run in inner.kept_runs())
    note(inner.row(fault.name, report, seconds))


@needs_lab
@FORMS
def test_a_resolver_that_leads_one_arm_astray_has_nobody_connect_there(session, note, form):
    inner = lied_to(session, MAPPED, form, NOTHING_DECIDED, "1 unjudged")
    report, seconds = inner.find_report(f"^{MAPPED.words}")
    assert seconds < BOUND_S[form]
    assert {run["arm"] for run in inner.kept_runs() if run["rows"]} == {"ipv4"}
    assert not any(run["proof"]["peers"] for run in inner.kept_runs() if run["arm"] == "ipv6")
    note(inner.row(MAPPED.name, report, None, "measured"))


# --- agents and servers under way -------------------------------------------------------------------------------------

DIED = r"; its host went down, the link broke, or it was killed \(by the kernel, when memory runs out\)$"
SILENT = (
    "the agent sent no keep-alive for S s during call '{}'; its host hangs or is overloaded, the link is broken, "
    "or it was stopped$"
)
MUTE = r"host server: {} runs but does not answer on 198\.18\.0\.2 port \d+: timed out; its log is empty$"
STRIKES = [
    Fault(
        "the client's agent is killed",
        "client",
        f"host client: the agent died during call 'load'{DIED}",
        signal.SIGKILL,
    ),
    Fault(
        "the server's agent is killed",
        "server",
        f"host server: the agent died (while host client needed it|during call '(start|finish)_run'){DIED}",
        signal.SIGKILL,
    ),
    Fault("the client's agent is stopped", "client", f"host client: {SILENT.format('load')}"),
    Fault("the server's agent is stopped", "server", f"host server: {SILENT.format('(start|finish)_run')}"),
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
@each(STRIKES, far={"client", "server", "aiosmtpd"})
def test_what_is_struck_in_the_midst_of_a_run_is_told(session, note, fault, form):
    """At one connection at a time: a counted run has 300 bursts then, which is time to be struck in."""
    arguments = ("--design=quick", "--connections=1", "--ipperf-server=embedded", "-m", "smtp", *deadline(form, 0.5))
    agents = fault.how in PATIENCE_S
    inner = session(*arguments, changes=haste(form, HASTE if agents else HASTE[-1:]))
    inner.wait_for_runs(2)  # the warm-ups, which are short
    inner.strike(inner.victim(fault.how), fault.blow)
    assert inner.end() == ERRORS, inner.text
    assert inner.outcome == "1 error"
    words = fault.words.replace(" S s ", f" {PATIENCE_S.get(fault.how, {}).get(form)} s ")
    report, seconds = inner.find_report(rf"^  broke off pair-smtp-c1-1k after \d of 36 runs: {words}")
    assert seconds < BOUND_S[form]
    runs = inner.kept_runs()
    assert runs[0]["rows"] > 0
    assert f" after {len(runs)} of 36 runs: " in report
    note(inner.row(fault.name, report, seconds))


PAUSE_S = 0.05
STARVED = Fault("the client's agent gets no processor time", "client", "^nothing$")


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
    try:
        yield
    finally:
        ended.set()
        thread.join()


@needs_lab
@FORMS
def test_an_agent_that_is_starved_is_seen_in_how_late_its_loop_comes_round(session, note, form):
    """Its figures are too high, and the records tell why. What is to be said of it is to be asked for here."""
    arguments = ("--design=paper", "--connections=100", "--ipperf-server=embedded", "-m", "http", *deadline(form, 5))
    inner = session(*arguments)
    with starved(inner, 22):  # all, as the first are over before the agent is found
        assert inner.end() == NOTHING_DECIDED, inner.text
    assert inner.outcome == "1 unjudged"
    assert max(run["proof"]["lag_s"] for run in inner.kept_runs()) > PAUSE_S
    note(inner.row(STARVED.name, "nothing", None))


# --- the records and the clock ----------------------------------------------------------------------------------------

FULL = Fault(
    "the disk for the records is full",
    'mount -t tmpfs -o size=48k none "$0" && { "$@"; status=$?; cp -r "$0" kept; exit $status; }',
    r"records: \S+/runs/\S+ cannot be written \(No space left on device\); what was written before is kept; name "
    r"another folder with --ipperf-records$",
)
CLOCK = Fault("the clock is set, by +1 h and by -1 h", CLOCK_BY_HOURS, "^nothing$")


@needs_lab
@FORMS
def test_a_full_disk_is_told_and_what_was_written_is_whole(session, note, pytester, form):
    """The disk has a few pages, in a mount namespace of the session's own."""
    (pytester.path / "small").mkdir()
    user = ["--user", "--map-root-user"] if os.geteuid() else []
    inner = session(
        "--design=quick", "--connections=10", "--ipperf-server=embedded", "-m", "smtp or http",
        "--ipperf-records=small", *deadline(form, 5),
        entry=["unshare", *user, "--mount", "sh", "-c", FULL.how, "small"],
    )  # fmt: skip
    assert inner.end() == ERRORS, inner.text
    assert inner.outcome == "2 errors"
    # A later, smaller run may have found room again.
    runs = [run for run in inner.kept_runs() if run["workload"] == "pair-smtp-c10-1k"]
    assert len(runs) > 1
    inner.broke_at = runs[-1]["at"]  # it was the next one that found no room
    report, seconds = inner.find_report(rf"^  broke off pair-smtp-c10-1k after {len(runs)} of 36 runs: {FULL.words}")
    assert seconds < BOUND_S[form]
    note(inner.row(FULL.name, report, seconds))


@needs_lab
@FORMS
def test_a_clock_that_is_set_changes_no_figure(session, note, pytester, form):
    """By an hour forwards, then by two back: whatever asks for the time of day gets that, on every host.

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
    assert inner.outcome == "2 unjudged"
    runs = inner.kept_runs()
    assert len(runs) == 44
    assert {round((run["at"] - now) / 3600) for run in runs} == {-1, 0, 1}
    assert all(0 < run["values"]["response_time"] < 5 and not run["failed"] for run in runs)
    assert [run["started_at"] for run in runs] == sorted(run["started_at"] for run in runs)
    took = re.findall(r"  measured pair-http-\S+: 22 runs in (\d+) (ms|s)", inner.text)
    assert len(took) == 2
    assert max(int(number) for number, unit in [("0", "s"), *took] if unit == "s") < 600
    note(inner.row(CLOCK.name, "nothing", None))


# --- the page ---------------------------------------------------------------------------------------------------------


def test_the_page_has_a_row_for_each_fault_with_the_words_that_are_said():
    faults = [
        *SERVER_FAULTS, *ACCOUNT_FAULTS, DIES, TENTH, TENTH6, DENIED, DENIED6, DIFFERS6, SLOW, *CLIENT_FAULTS,
        *RESOLVER_FAULTS, MAPPED, *STRIKES, STARVED, FULL, CLOCK,
    ]  # fmt: skip
    page = PAGE.read_text().partition("\n## ")[0]
    lines = [line.strip("| \n").split(" | ") for line in page.splitlines() if line.startswith("| the ")]
    rows = {cells[0]: cells[1].strip("` ") for cells in lines}
    assert list(rows) == [fault.name for fault in faults]
    for fault in faults:
        words = fault.words.replace(" S s ", f" {PATIENCE_S.get(fault.how, {}).get('long')} s ")
        assert re.search(words, rows[fault.name]), fault.name
