import json
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.errors import UsageError
from pytest_ipperf.protocols.base import PHASES
from pytest_ipperf.store import SCHEMA, Journal, read_session

WORKLOADS = ("loopback-http-c1-1k", "loopback-http-c10-1k")
ROW = tuple(0.1 * column for column in range(len(PHASES)))


def write(folder, writer="main", workloads=WORKLOADS, schema=SCHEMA):
    """Two workloads of three runs each, whole."""
    journal = Journal(folder, writer)
    journal.append("session", {"schema": schema, "seed": 7})
    for name in workloads:
        journal.append("workload", {"workload": name, "seed": 7, "order": []})
        journal.append("epoch", {"workload": name, "epoch": 0})
        for block in (-1, 0, 1):
            offset = journal.append_samples(array("d", ROW * (block + 2)).tobytes())
            samples = {"columns": PHASES, "rows": block + 2, "offset": offset}
            journal.append("run", {"workload": name, "block": block, **samples})
        journal.append("complete", {"workload": name, "looks": {"ipv6": 1}})
        journal.settle()
    journal.close()


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
        assert found.complete["workload"] == found.begun["workload"]
        assert [run["block"] for run in found.runs] == [-1, 0, 1]
        assert list(map(tuple, found.samples())) == [ROW * count for count in (1, 2, 3)]


@given(data=st.data())
def test_whatever_is_cut_off_the_rest_is_read_or_a_sentence_says_why_not(whole, tmp_path_factory, data):
    """Both files end anywhere, and where the journal ends zeros may follow, as after a loss of power."""
    journal, samples = ((whole / f"main.{kind}").read_bytes() for kind in ("jsonl", "f64"))
    cut = data.draw(st.integers(0, len(journal)), label="journal")
    left = data.draw(st.integers(0, len(samples)), label="samples")
    zeros = data.draw(st.sampled_from((b"", bytes(9), b"\n", bytes(9) + b"\n{}\n")), label="after it")
    folder = tmp_path_factory.mktemp("cut")
    (folder / "main.jsonl").write_bytes(journal[:cut] + zeros)
    (folder / "main.f64").write_bytes(samples[:left])
    lines = [json.loads(line) for line in (journal[:cut]).decode().splitlines(keepends=True) if line.endswith("\n")]
    if not lines and zeros[:1] != b"\n":
        with pytest.raises(UsageError, match=r"^session .* has no records: no journal in it begins with an event"):
            read_session(folder)
        return
    try:
        kept = read_session(folder)
    except UsageError:
        assert not lines
        return
    whole_lines = [line["event"] for line in lines]
    found = [event for each in kept.workloads.values() for event in (*each.epochs, *each.runs, each.complete) if event]
    wanted = sum(event in ("epoch", "run", "complete") for event in whole_lines)
    # What was cut at the end of a line is a whole line once a line's end follows.
    assert wanted <= len(found) <= wanted + (zeros[:1] == b"\n")
    for each in kept.workloads.values():
        if each.whole and each.runs:
            assert list(map(tuple, each.samples())) == [ROW * run["rows"] for run in each.runs]
        else:
            assert not each.runs or left < len(samples)


@given(at=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_a_byte_that_turned_leaves_a_session_or_a_sentence(whole, tmp_path_factory, at, byte):
    journal = bytearray((whole / "main.jsonl").read_bytes())
    journal[at % len(journal)] = byte
    folder = tmp_path_factory.mktemp("turned")
    (folder / "main.jsonl").write_bytes(journal)
    try:
        kept = read_session(folder)
    except UsageError as error:
        assert str(folder) in str(error)  # noqa: PT017 - both ends are right
    else:
        assert kept.facts["seed"] is not None


def test_a_workload_that_was_begun_again_counts_from_there(tmp_path):
    write(tmp_path / "one", workloads=(WORKLOADS[0], WORKLOADS[0]))
    (found,) = read_session(tmp_path / "one").workloads.values()
    assert len(found.runs) == 3
    assert [tuple(samples[: len(PHASES)]) for samples in found.samples()] == [ROW] * 3
    assert found.runs[0]["offset"] > 0


def test_what_a_worker_left_is_taken_from_the_one_that_ended_it(tmp_path):
    write(tmp_path / "one", writer="gw1")
    half = Journal(tmp_path / "one", "gw0")
    half.append("session", {"schema": SCHEMA, "seed": 7})
    half.append("workload", {"workload": WORKLOADS[0], "seed": 7, "order": []})
    half.append("broken", {"workload": WORKLOADS[0], "sentence": "the agent died"})
    half.close()
    kept = read_session(tmp_path / "one")
    assert all(found.complete and not found.broken for found in kept.workloads.values())


def test_what_it_took_over_itself_is_told_with_its_folder(tmp_path):
    journal = Journal(tmp_path / "two", "main")
    journal.append("session", {"schema": SCHEMA, "seed": 7})
    journal.append("taken", {"workload": WORKLOADS[0], "session": "one", "folder": str(tmp_path / "one")})
    journal.close()
    assert read_session(tmp_path / "two").taken_over == {WORKLOADS[0]: tmp_path / "one"}


def test_what_could_not_be_taken_over_was_not_whoever_says_so(tmp_path):
    for writer, event in (("gw0", "anew"), ("main", "taken")):
        journal = Journal(tmp_path / "two", writer)
        journal.append("session", {"schema": SCHEMA, "seed": 7})
        for workload in WORKLOADS if event == "taken" else WORKLOADS[:1]:
            journal.append(event, {"workload": workload, "session": "one", "folder": str(tmp_path / "one"), "why": ""})
        journal.close()
    assert tuple(read_session(tmp_path / "two").taken_over) == WORKLOADS[1:]


def test_records_of_another_schema_are_not_guessed_at(tmp_path):
    write(tmp_path / "old", schema=2)
    with pytest.raises(UsageError, match=rf"old has records of schema 2; this version reads schemas 5 to {SCHEMA}$"):
        read_session(tmp_path / "old")


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UsageError, match=rf"^session {tmp_path}/gone is not there$"):
        read_session(tmp_path / "gone")
