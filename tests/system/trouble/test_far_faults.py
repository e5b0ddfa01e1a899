"""What can break on hosts behind real sshds, broken: what is said, how soon, what comes of it, and what is left.

The short form has short deadlines and little patience. The long one, marked `evidence`, has those that a user has; its
table is that of docs/faults.md, section "Hosts behind ssh".
"""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pytest_ipperf.plugin.measure.outcome import NOTHING_DECIDED
from tests.support.hosts.ssh_hosts import trouble as no_farm
from tests.support.sessions.forked_python import preload_copy
from tests.system.trouble.breaking import (
    CLOCK,
    CONTINUE,
    HONEST,
    KILL,
    LIES,
    PACKAGE,
    PORTS,
    STOP,
    Mend,
    agent,
    all_ports_taken,
    cut,
    cut_before,
    disk_full,
    go_on,
    leased,
    lied_to,
    main_of,
    mute_listener,
    no_keeper,
    no_key,
    no_listener,
    other_key,
    pages,
    python,
    released,
    server,
    session_of,
    set_clock,
    some_ports_taken,
    ssh,
    struck,
    unknown_host,
    worker,
    worker_stopped,
)  # fmt: skip
from tests.system.trouble.struck import PAYLOADS, WELL, Inner, Trouble, beds, left

PAGE = Path(__file__).parents[3] / "docs" / "faults.md"
FORMS = pytest.mark.parametrize("form", ["short", pytest.param("long", marks=pytest.mark.evidence)])
BOUND_S = {"short": 120.0, "long": 240.0}
"""Within which everything has to be reported: against hanging, and no promise of speed."""

SMALL = [
    ("core/**/*.py", "epochs=2,\n            blocks=1", "epochs=1,\n            blocks=1"),
    # Long runs at one connection, time to be struck in also for a test that is held up; others are a burst.
    ("core/**/*.py", "return -(-self.run_connections // connections)", "return 2000 if connections == 1 else 1"),
]
HASTE = [
    ("agent/**/*.py", "FAR_PROGRESS_S = 1.0, 5.0", "FAR_PROGRESS_S = 1.0, 1.0"),
    ("agent/**/*.py", "_TERM_S = 2.0", "_TERM_S = 0.5"),
    ("lab/**/*.py", "_BURST_S = 10.0", "_BURST_S = 5.0"),
    ("lab/**/*.py", "\nPATIENCE_S = 30.0", "\nPATIENCE_S = 10.0"),
    ("lab/**/*.py", "_STOP_S = 5.0", "_STOP_S = 1.0"),
    ("lab/access/*.py", "ConnectTimeout=10", "ConnectTimeout=5"),
    # All testbeds start their agents at the same time, on one machine.
    ("lab/agents/client.py", "\n_START_S = 20.0", "\n_START_S = 60.0"),
]
# Longer than patience with an agent, as it is for a user.
WATCHDOG_TIMEOUT_S = {"short": "20.0", "long": "60.0"}
LIED = [("servers/*.py", HONEST, LIES)]

needs_farm = pytest.mark.skipif(bool(no_farm()), reason=no_farm())


def changed(form, *more):
    """Changes as `site_of` takes them; a pattern stands for the one file that has the text."""
    found = []
    watchdog = [
        ("lab/**/*.py", "WATCHDOG_TIMEOUT_S = 900.0", f"WATCHDOG_TIMEOUT_S = {WATCHDOG_TIMEOUT_S[form]}"),
        ("lab/**/*.py", "_EVERY_S = 60.0", "_EVERY_S = 1.0"),
    ]
    for pattern, old, new in [*SMALL, *watchdog, *(HASTE if form == "short" else []), *more]:
        (path,) = (path for path in PACKAGE.glob(pattern) if old in path.read_text())
        found.append((str(path.relative_to(PACKAGE)), old, new))
    return found


EMBEDDED = "--ipperf-server=nameserver"


def deadline(form):
    return f"--ipperf-deadline={'10s' if form == 'long' else '2s'}"


DIED = (
    r"the agent died (?:during call '\w+'|while host \S+ needed it); its host went down, the link broke, or it was "
    r"killed \(by the kernel, when memory runs out\)$"
)
SILENT = (
    r"the agent sent no keep-alive for \d+ s during call '\w+'; its host hangs or is overloaded, the link is "
    "broken, or it was stopped$"
)
NONE = (
    r"the reference ipv4 completed none of \d+ connections \({}\), so there is nothing to compare with; "
    r"is the {} well\?$"
)
UNSTARTED = "host CLIENT: no agent could be started by access method ssh: {}$"
CONNECT = r"ssh: connect to host \S+ port 22:"
REFUSED = r"\(exit status 255\)"

WAITING = r"ipperf: waiting for host CLIENT, which is held by process \d+ of user 0 since [\d:]+ \(.*\)$"
CLIENT, SERVER = "client", "server"
# The short form kills and stops both agents, and of what leads to a host it kills one on each side and stops the other.
CHAINS = {
    "bed1": [
        Trouble("the client's agent is killed", f"host CLIENT: {DIED}", struck(agent(CLIENT), KILL)),
        Trouble("the client's agent is stopped", f"host CLIENT: {SILENT}", struck(agent(CLIENT), STOP)),
        Trouble("the ssh to the client is killed", f"host CLIENT: {DIED}", struck(ssh(CLIENT), KILL), long=True),
        Trouble("the ssh to the client is stopped", f"host CLIENT: {SILENT}", struck(ssh(CLIENT), STOP)),
        Trouble("no sshd listens", UNSTARTED.format(rf"{CONNECT} Connection refused {REFUSED}"), before=no_listener),
        Trouble(
            "the sshd that listens is stopped",
            UNSTARTED.format(rf"Connection timed out during banner exchange {REFUSED}"),
            before=mute_listener,
        ),
    ],
    "bed2": [
        Trouble("the server's agent is killed", f"host SERVER: {DIED}", struck(agent(SERVER), KILL)),
        Trouble("the server's agent is stopped", f"host SERVER: {SILENT}", struck(agent(SERVER), STOP)),
        Trouble("the ssh to the server is killed", f"host SERVER: {DIED}", struck(ssh(SERVER), KILL)),
        Trouble("the ssh to the server is stopped", f"host SERVER: {SILENT}", struck(ssh(SERVER), STOP), long=True),
        Trouble(
            "the key is not the host's",
            UNSTARTED.format(rf"root@\S+: Permission denied \(publickey\)\. {REFUSED}"),
            before=no_key,
        ),
        Trouble(
            "the host is not known", UNSTARTED.format(rf"Host key verification failed\. {REFUSED}"), before=unknown_host
        ),
        Trouble(
            "the host is known by another key",
            UNSTARTED.format(rf"Host key for \S+ has changed and you have requested strict checking\. {REFUSED}"),
            before=other_key,
        ),
    ],
    "bed3": [
        Trouble("the client's sshd is killed", f"host CLIENT: {DIED}", struck(session_of(CLIENT), KILL)),
        Trouble(
            "the client's sshd is stopped",
            f"host CLIENT: {SILENT}",
            struck(session_of(CLIENT), STOP, CONTINUE),
            long=True,
        ),
        Trouble("the server's sshd is killed", f"host SERVER: {DIED}", struck(session_of(SERVER), KILL), long=True),
        Trouble("the server's sshd is stopped", f"host SERVER: {SILENT}", struck(session_of(SERVER), STOP, CONTINUE)),
        Trouble(
            "its Python is too old",
            UNSTARTED.format(r"Python 3\.9\.2 is too old; 3\.10 is needed \(exit status 1\)"),
            before=python("old"),
        ),
        Trouble(
            "its Python does not exist",
            UNSTARTED.format(r".*/python3: No such file or directory \(exit status 127\)"),
            before=python(""),
        ),
        Trouble(
            "its Python is another program",
            UNSTARTED.format("what was started there ended before it answered; it must be a Python"),
            before=python("/bin/true"),
        ),
    ],
    "bed4": [
        Trouble("the client's control link is cut", f"host CLIENT: {SILENT}", cut(CLIENT, "control_device")),
        Trouble("the server's control link is cut", f"host SERVER: {SILENT}", cut(SERVER, "control_device")),
        Trouble(
            "the client's measured link is cut",
            r"the reference ipv4 completed none of \d+ connections \(talk unreachable: \d+\), so there is nothing to "
            r"compare with; is there a way from the client to the server nameserver .*\?$",
            cut(CLIENT, "device"),
        ),
        Trouble(
            "the server's measured link is cut",
            r"host SERVER: nameserver runs but does not answer on \S+ port \d+: Network is unreachable; "
            "its log is empty$",
            cut(SERVER, "device"),
        ),
        Trouble(
            "the control link is down at the start",
            UNSTARTED.format(rf"{CONNECT} (?:Connection timed out|No route to host) {REFUSED}"),
            before=cut_before,
        ),
        Trouble(
            "the resolver returns a wrong address",
            NONE.format(
                r"content: dns: expected A 198\.18\.6\.2 for www\.ipperf\.test, seen A 198\.18\.6\.1: \d+",
                "name server",
            ),
            before=lied_to,
            protocol="http",
        ),
    ],
    "bed5": [
        Trouble("", "", protocol="ftp", connections=5),
        Trouble(
            "the agent that keeps the server state is killed",
            "host SERVER: the agent that keeps what its servers hold died$",
            before=no_keeper,
            protocol="ftp",
            connections=5,
        ),
        Trouble("", "", protocol="ftp", connections=5),
        Trouble(
            "the server is killed",
            r"host SERVER: \w+ was killed by signal 9; its log (?:is empty|ends: .*)$",
            struck(server, KILL),
            protocol="http",
        ),
        Trouble(
            "the server is stopped",
            r"host SERVER: \w+ runs but does not answer on \S+ port \d+: timed out; its log (?:is empty|ends: .*)$",
            struck(server, STOP),
            protocol="http",
        ),
        Trouble(
            "the server resets every tenth connection",
            r"FAILURES \S+-smtp-\S+: \d+ of \d+ connections by ipv6, \d+ of \d+ by ipv4; each counts as \d+ s$",
            protocol="smtp",
            beside=True,
            connections=50,
            outcome="measured",
        ),
        Trouble(
            "the host's disk is full", r"host SERVER: .*No space left on device.*$", before=disk_full, protocol="http"
        ),
    ],
    "bed6": [
        Trouble(
            "a worker of xdist is killed",
            "worker 'gw\\d+' crashed while running '\\S+'",
            struck(worker, KILL),
            beside=True,
            ends=False,
            outcome="failed",
        ),
        Trouble(
            "a worker of xdist is stopped until the watchdogs have ended its agents",
            f"host (?:CLIENT|SERVER): {DIED}",
            worker_stopped,
        ),
        Trouble(
            "all ports of `ports` are taken",
            r"host SERVER: no free port in 21000-21009 on \S+ and \S+; free one or widen 'ports' in hosts\.ini$",
            before=all_ports_taken,
        ),
        Trouble("some ports of `ports` are taken", "", before=some_ports_taken, connections=5, outcome="measured"),
        Trouble(
            "the host is held by another job, which ends",
            WAITING,
            released,
            before=leased,
            beside=True,
            connections=5,
            outcome="measured",
        ),
        Trouble(
            "the host is held by another job",
            r"host CLIENT is still held by process \d+ of user 0 since [\d:]+ \(me@desk: pytest -m smtp\) after 3 s; "
            "wait for it or end it$",
            before=leased,
        ),
    ],
}


@needs_farm
@FORMS
def test_what_breaks_on_one_testbed_is_told_and_the_others_go_on(farm, site_of, note, form):
    """And the next workload goes on, and a new session."""
    stands = farm(testbeds=len(CHAINS))
    stands.change("server6", ports=f"{PORTS[0]}-{PORTS[-1]}")
    site = site_of(*changed(form, *LIED))
    preload_copy(site)
    stands.give_code(site)
    chains = {bed.name: (bed, chain_of(bed, form)) for bed in beds(stands)}
    arguments = "--design=smoke", f"-n{len(chains)}", deadline(form), "--ipperf-wait=3s"
    inner = Inner(
        stands, site, [cell for _, chain in chains.values() for cell, _ in chain], *arguments,
        "--ipperf-server=nameserver,tenth_smtp,auto", gates=True,
    )  # fmt: skip
    assert inner.run_all(chains) == pytest.ExitCode.TESTS_FAILED, inner.text
    rows = [inner.row(it, bed, cell) for bed, chain in chains.values() for cell, it in chain]
    for row in filter(lambda row: row.fault, rows):
        assert row.seconds is None or row.seconds < BOUND_S[form]
        note(row)
    assert left(stands) == []
    cells = [f"{name}-dns-c5-100" for name in chains]
    again = Inner(stands, site, cells, "--design=smoke", deadline(form), EMBEDDED)
    assert again.end() == NOTHING_DECIDED, again.text
    assert left(stands) == []


def chain_of(bed, form):
    """Cells and what breaks in each; the last one shows that all goes on."""
    breaks = [each for each in CHAINS[bed.name] if form == "long" or not each.long]
    chain = zip(PAYLOADS, [*breaks, WELL], strict=False)
    return [(f"{bed.name}-{it.protocol}-c{it.connections}-{payload}", it) for payload, it in chain]


# --- on the controller ------------------------------------------------------------------------------------------------

KILLED = Trouble("the controller is killed", "", ends=False)
KILLED_MAIN = Trouble("the controller of xdist's workers is killed", "", ends=False)
STOPPED = Trouble(
    "the controller is stopped until the watchdogs have ended its agents", f"host (?:CLIENT|SERVER): {DIED}"
)
WAITS = Trouble("the same, seen by another session", WAITING, beside=True, outcome="measured")
FULL = Trouble(
    "the disk for the records is full",
    r"records: \S+/runs/\S+ cannot be written \(No space left on device\); what was written before is kept; name "
    r"another folder with --ipperf-records$",
)
CLOCKS = Trouble("the clocks of client, server and controller are set", "", outcome="measured")
SILENCE = Trouble(
    "the server accepts and never answers",
    NONE.format(r"talk deadline: \d+", r"server silent_smtp 0 \(embedded\)"),
)


@needs_farm
@FORMS
def test_what_breaks_on_the_controller_is_told_and_the_hosts_give_themselves_back(farm, site_of, note, form):
    stands = farm(testbeds=6)
    by = {bed.name: bed for bed in beds(stands)}
    site = site_of(*changed(form))
    preload_copy(site)
    stands.give_code(site)
    init = (PACKAGE / "__init__.py").read_text()
    clocked = site_of(*changed(form, ("__init__.py", init, init + CLOCK)))

    def session(cell, *argv, of=site, gates=False):
        return Inner(stands, of, [cell], "--design=smoke", deadline(form), "--ipperf-wait=200s", *argv, gates=gates)

    killed = session("bed1-dns-c1-100", EMBEDDED)
    stopped = session("bed2-dns-c1-100", EMBEDDED)
    main = session("bed3-dns-c1-100", EMBEDDED, "-n1")
    full = session("bed4-dns-c1-100", EMBEDDED, "--ipperf-records=pages")
    pages(full, "pages", "48k")
    clocks = session("bed5-dns-c1-100", EMBEDDED, of=clocked)
    silence = session("bed6-smtp-c5-100", "--ipperf-server=silent_smtp")
    # Up by the time that it has to wait, as the watchdogs soon end the agents that it waits for.
    other = session("bed2-dns-c5-200", EMBEDDED, gates=True)
    mends: list[Mend] = []

    def strike(bed, inner):
        inner.wait(f"{bed}-dns-c1-100", "run")
        inner.begins(f"{bed}-dns-c1-100")
        if inner is clocks:
            hosts = ((by[bed].client.pid, 1), (by[bed].server.pid, -1), (stands.controller.pid, 2))
            mends.extend(set_clock(pid, hours) for pid, hours in hosts)
        else:
            os.kill(main_of(inner), STOP if inner is stopped else KILL)
        if inner is stopped:
            other.open("bed2-dns-c5-200")

    with ThreadPoolExecutor() as pool:
        strikes = {"bed1": killed, "bed2": stopped, "bed3": main, "bed5": clocks}
        for each in [pool.submit(strike, *one) for one in strikes.items()]:
            each.result()
    assert other.end() == NOTHING_DECIDED, other.text
    stopped.begins("bed2-dns-c1-100")
    go_on(stopped)
    assert [each.end() for each in (stopped, full, silence)] == [pytest.ExitCode.TESTS_FAILED] * 3
    assert clocks.end() == NOTHING_DECIDED
    for inner in (killed, main):
        assert inner.end() == -KILL or inner.end() == 128 + KILL
    for mend in mends:
        mend()
    assert left(stands) == []
    again = Inner(stands, site, [f"{name}-dns-c5-300" for name in by], "--design=smoke", deadline(form), EMBEDDED)
    assert again.end() == NOTHING_DECIDED, again.text
    assert left(stands) == []
    for inner, trouble, cell in (
        (killed, KILLED, "bed1-dns-c1-100"), (main, KILLED_MAIN, "bed3-dns-c1-100"),
        (stopped, STOPPED, "bed2-dns-c1-100"), (other, WAITS, "bed2-dns-c5-200"), (full, FULL, "bed4-dns-c1-100"),
        (clocks, CLOCKS, "bed5-dns-c1-100"), (silence, SILENCE, "bed6-smtp-c5-100"),
    ):  # fmt: skip
        row = inner.row(trouble, by[cell[:4]], cell)
        assert row.seconds is None or row.seconds < BOUND_S[form]
        note(row)


# --- the page ---------------------------------------------------------------------------------------------------------


def test_the_page_has_a_row_for_each_fault_of_far_hosts_with_the_words_that_are_said():
    chains = [it for chain in CHAINS.values() for it in chain if it.name]
    faults = [*chains, KILLED, KILLED_MAIN, STOPPED, WAITS, FULL, CLOCKS, SILENCE]
    section = PAGE.read_text().partition("\n## Hosts behind ssh\n")[2].partition("\n## ")[0]
    lines = [line.strip("| \n").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    rows = {cells[0]: cells[1].strip("`") for cells in lines[1:]}
    assert list(rows) == [fault.name for fault in faults]
    for fault in faults:
        words = fault.pattern() or "^nothing"
        assert re.search(words, rows[fault.name]), fault.name
