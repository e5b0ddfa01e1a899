import contextlib
import dataclasses
import json
import math
import shutil
import zlib
from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.portable.errors import DamageError, UsageError
from pytest_ipperf.protocols.base import PHASES
from pytest_ipperf.store import SCHEMA, Archive, EventLog, read_session, records_in
from pytest_ipperf.store.log.checksum import with_checksum
from tests.store.kept import HOST, events_of, facts, keep, record, rewrite

WORKLOADS = ("loopback-http-c1-1k", "loopback-http-c10-1k")
RUN = {"arm": "ipv6", "warmup": False, "failed": {}}
ROW = tuple(0.1 * column for column in range(len(PHASES)))


def write(folder, writer="main", workloads=WORKLOADS, schema=SCHEMA):
    """Write two complete workloads of three runs each."""
    event_log = EventLog(folder, writer)
    event_log.append("session", facts(0, schema=schema))
    for name in workloads:
        event_log.append("workload", {"workload": name, "seed": 7, "order": []})
        event_log.append(
            "epoch", {"workload": name, "epoch": 0, "server": "apache 2.4", "fingerprint": {"client": HOST}}
        )
        for block in (-1, 0, 1):
            offset = event_log.append_samples(array("d", ROW * (block + 2)).tobytes())
            samples = {"columns": PHASES, "rows": block + 2, "offset": offset}
            event_log.append("run", {"workload": name, "block": block, **RUN, **samples})
        event_log.append("complete", {"workload": name, "looks": {"ipv6": 1}})
        event_log.sync()
    event_log.close()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "session"
    write(folder)
    return folder


def test_all_of_a_session_is_read_back(whole):
    kept = read_session(whole)
    assert (kept.name, kept.facts["seed"], list(kept.workloads)) == ("session", 7, list(WORKLOADS))
    for found in kept.workloads.values():
        assert found.whole
        assert found.complete["workload"] == found.workload_event["workload"]
        assert [run["block"] for run in found.runs] == [-1, 0, 1]
        assert list(map(tuple, found.samples())) == [ROW * count for count in (1, 2, 3)]


@given(data=st.data())
def test_whatever_is_cut_off_the_rest_is_read_and_whole_lines_that_are_none_are_damage(whole, tmp_path_factory, data):
    """Both files are cut at every place, and zeros may follow the event log's end, as after a power failure."""
    event_log, samples = ((whole / f"main.{kind}").read_bytes() for kind in ("jsonl", "f64"))
    cut = data.draw(st.integers(0, len(event_log)), label="journal")
    left = data.draw(st.integers(0, len(samples)), label="samples")
    zeros = data.draw(st.sampled_from((b"", bytes(9), b"\n", bytes(9) + b"\n{}\n")), label="after it")
    folder = tmp_path_factory.mktemp("cut")
    (folder / "main.jsonl").write_bytes(event_log[:cut] + zeros)
    (folder / "main.f64").write_bytes(samples[:left])
    mended = zeros == b"\n" and event_log[cut : cut + 1] == b"\n"  # nothing but the end of a line was cut off
    cut += mended
    lines = [json.loads(line) for line in event_log[:cut].splitlines(keepends=True) if line.endswith(b"\n")]
    if b"\n" in zeros and not mended:
        with pytest.raises(DamageError, match=rf"^session {folder.name}: main\.jsonl:{len(lines) + 1} is damaged \("):
            read_session(folder)
    elif not lines:
        with pytest.raises(UsageError, match=r"^session .* has no records: no event log in it begins with an event"):
            read_session(folder)
    else:
        read_session(folder)
    if lines:
        found = read_session(folder, damage=[])
        kept = [event for each in found.workloads.values() for event in (*each.epochs, *each.runs, each.complete)]
        wanted = [line for line in lines if line["event"] in ("epoch", "run", "complete")]
        assert list(filter(None, kept)) == wanted
        for each in found.workloads.values():
            assert each.whole == all(run["offset"] + 8 * len(PHASES) * run["rows"] <= left for run in each.runs)
            if each.whole and each.runs:
                assert list(map(tuple, each.samples())) == [ROW * run["rows"] for run in each.runs]


@given(data=st.data())
def test_a_byte_that_turned_is_damage_of_its_line(whole, tmp_path_factory, data):
    """Without the checksum, a flipped byte in a number or a name could be valid."""
    event_log = bytearray((whole / "main.jsonl").read_bytes())
    at = data.draw(st.integers(0, len(event_log) - 2), label="at")  # without the last line's end it is half a line
    event_log[at] = data.draw(st.integers(0, 255).filter(lambda byte: byte != event_log[at]), label="byte")
    folder = tmp_path_factory.mktemp("turned")
    (folder / "main.jsonl").write_bytes(event_log)
    shutil.copy(whole / "main.f64", folder)
    line = (whole / "main.jsonl").read_bytes()[:at].count(b"\n") + 1
    with pytest.raises(DamageError, match=rf"^session {folder.name}: main\.jsonl:{line} is damaged \("):
        read_session(folder)


@pytest.mark.parametrize("change", ["twice", "gone", "swapped", "first", "other"])
def test_lines_that_are_not_where_they_were_are_damage(whole, tmp_path, change):
    lines = (whole / "main.jsonl").read_bytes().splitlines(keepends=True)
    at = 3
    if change == "twice":
        lines.insert(at, lines[at - 1])
    elif change == "gone":
        del lines[at]
    elif change == "swapped":
        lines[at], lines[at + 1] = lines[at + 1], lines[at]
    elif change == "first":
        del lines[0]
        at = 0
    else:  # whole in itself, and of another journal
        lines[at] = with_checksum('{"event": "note", "at": 1, "text": "x"}')[0]
    (tmp_path / "main.jsonl").write_bytes(b"".join(lines))
    with pytest.raises(DamageError, match=rf": main\.jsonl:{at + 1} is damaged \("):
        read_session(tmp_path)


INVALID_EVENT_ERRORS: dict[str, dict[str, Any]] = {
    "session": {"seed": "7", "design": 7, "at": -1, "arguments": "suites", "deadline_s": math.nan},
    "workload": {"order": 7, "workload": None},
    "epoch": {"fingerprint": [], "server": 7},
    "run": {
        "rows": -1, "offset": 1.5, "columns": "total", "failed": {"x": True}, "warmup": 0, "values": {"x": math.nan},
        "samples_crc32": "x", "arm": None, "block": 10**30, "at": math.inf,
    },
    "complete": {"looks": {"ipv6": "1"}, "seconds": [math.inf]},
    "end": {"status": True, "seconds": math.nan, "files": {"gw0.jsonl": -1}},
    "note": {"text": 5},
    "trouble": {"sentence": None},
    "record": {"estimate": math.nan, "epochs": 0, "verdict": "wthin", "alpha": 2},
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, names in INVALID_EVENT_ERRORS.items() for name in names]
)
@pytest.mark.parametrize("checksums", [True, False], ids=["today", "schema 6"])
def test_every_event_is_checked_for_the_types_of_what_it_has(whole, tmp_path, kind, name, checksums):
    """The lines have checksums of a faulty writer, or none, as before schema 7."""
    folder = shutil.copytree(whole, tmp_path / "one")
    path = folder / "main.jsonl"
    more: dict[str, dict[str, Any]] = {
        "end": {"status": 0, "seconds": 1.0}, "note": {"text": "so"},
        "trouble": {"nodeid": "x", "kind": "failed", "sentence": "so"}, "record": record(1).to_plain(),
    }  # fmt: skip
    events = [*events_of(path), *({"event": each, "at": 1.0, **facts} for each, facts in more.items())]
    events[0]["schema"] = SCHEMA if checksums else 6
    rewrite(path, events, checksums=checksums)
    assert read_session(folder).facts["seed"] == 7
    number = next(at for at, event in enumerate(events) if event["event"] == kind)
    events[number][name] = INVALID_EVENT_ERRORS[kind][name]
    rewrite(path, events, checksums=checksums)
    with pytest.raises(DamageError, match=rf": main\.jsonl:{number + 1} is damaged \(.*{name!r} cannot be "):
        read_session(folder)


def test_what_a_later_version_writes_beside_that_is_left_alone(whole, tmp_path):
    folder = shutil.copytree(whole, tmp_path / "one")
    event_log = EventLog(folder, "main")
    event_log.append("weather", {"text": 5, "rows": "many"})
    event_log.append("note", {"text": "so", "colour": 5})
    event_log.close()
    assert read_session(folder).facts["seed"] == 7


def test_samples_that_are_not_those_that_were_written_are_damage(whole, tmp_path):
    folder = shutil.copytree(whole, tmp_path / "one")
    (name, *_) = WORKLOADS
    events = events_of(folder / "main.jsonl")
    packed = (folder / "main.f64").read_bytes()
    for event in events:
        if event["event"] == "run":
            end = event["offset"] + 8 * len(PHASES) * event["rows"]
            event["samples_crc32"] = zlib.crc32(packed[event["offset"] : end])
    rewrite(folder / "main.jsonl", events)
    assert len(list(read_session(folder).workloads[name].samples())) == 3
    (folder / "main.f64").write_bytes(bytes([packed[0] ^ 1]) + packed[1:])
    with pytest.raises(
        DamageError, match=r"^samples: .*/main\.f64 from byte 0 on is damaged: these are not the samples"
    ):
        list(read_session(folder).workloads[name].samples())


@pytest.mark.parametrize("lost", ["gone", "cut", "folder"])
def test_a_workers_journal_that_is_no_longer_whole_after_the_end_is_damage(whole, tmp_path, lost):
    folder = shutil.copytree(whole, tmp_path / "one")
    write(folder, writer="gw0")
    event_log = EventLog(folder, "main")
    event_log.append("end", {"status": 0, "seconds": 1, "files": event_log.sizes()})
    event_log.close()
    assert read_session(folder).facts["seed"] == 7
    path = folder / "gw0.jsonl"
    size = path.stat().st_size
    if lost == "cut":
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(lines[:-1]))
    else:
        path.unlink()
    if lost == "folder":
        path.mkdir()
    words = rf"^session one: gw0\.jsonl is damaged \(\d+ bytes of {size}\); put back a copy of the file"
    with pytest.raises(DamageError, match=words if lost != "folder" else "cannot be read"):
        read_session(folder)


def test_a_workload_that_was_begun_again_counts_from_there(tmp_path):
    write(tmp_path / "one", workloads=(WORKLOADS[0], WORKLOADS[0]))
    (found,) = read_session(tmp_path / "one").workloads.values()
    assert len(found.runs) == 3
    assert [tuple(samples[: len(PHASES)]) for samples in found.samples()] == [ROW] * 3
    assert found.runs[0]["offset"] > 0


def test_what_a_worker_left_is_taken_from_the_one_that_ended_it(tmp_path):
    write(tmp_path / "one", writer="gw1")
    incomplete = EventLog(tmp_path / "one", "gw0")
    incomplete.append("session", facts(0))
    incomplete.append("workload", {"workload": WORKLOADS[0], "seed": 7, "order": []})
    incomplete.append("broken", {"workload": WORKLOADS[0], "sentence": "the agent died"})
    incomplete.close()
    kept = read_session(tmp_path / "one")
    assert all(found.complete and not found.broken for found in kept.workloads.values())


def test_what_it_took_over_itself_is_told_with_its_folder(tmp_path):
    event_log = EventLog(tmp_path / "two", "main")
    event_log.append("session", facts(0))
    event_log.append("taken", {"workload": WORKLOADS[0], "session": "one", "folder": str(tmp_path / "one")})
    event_log.close()
    assert read_session(tmp_path / "two").reused == {WORKLOADS[0]: tmp_path / "one"}


def test_what_could_not_be_taken_over_was_not_whoever_says_so(tmp_path):
    for writer, event in (("gw0", "anew"), ("main", "taken")):
        event_log = EventLog(tmp_path / "two", writer)
        event_log.append("session", facts(0))
        for workload in WORKLOADS if event == "taken" else WORKLOADS[:1]:
            event_log.append(
                event, {"workload": workload, "session": "one", "folder": str(tmp_path / "one"), "why": ""}
            )
        event_log.close()
    assert tuple(read_session(tmp_path / "two").reused) == WORKLOADS[1:]


def test_records_of_another_schema_are_not_guessed_at(tmp_path):
    write(tmp_path / "old", schema=2)
    with pytest.raises(UsageError, match=rf"old has records of schema 2; this version reads schemas 5 to {SCHEMA}$"):
        read_session(tmp_path / "old")


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UsageError, match=rf"^session {tmp_path}/gone is not there$"):
        read_session(tmp_path / "gone")


@pytest.mark.parametrize("seed", [0, 1 << 62, 10**3999], ids=["0", "2**62", "4000 digits"])
def test_a_session_is_read_whatever_its_seed(tmp_path, seed):
    """`--ipperf-seed` takes whole numbers of up to 4000 digits."""
    folder = keep(tmp_path, 0, [dataclasses.replace(record(1), seed=seed)], seed=seed)
    event_log = EventLog(folder, "gw0")
    event_log.append("session", facts(0, seed=seed))
    event_log.append("workload", {"workload": WORKLOADS[0], "seed": seed, "order": []})
    event_log.close()
    assert [each.seed for each in records_in(folder)] == [seed]
    with contextlib.closing(Archive(tmp_path)) as archive:
        assert archive.notes == []
