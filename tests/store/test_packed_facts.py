"""Facts of a workload's runs, packed and not: those of the events, in a fraction of their memory."""

import gc
import random
import tracemalloc

import pytest

from pytest_ipperf.store.packed_facts import PackedFacts


def runs(count):
    """Return the facts of runs in short form."""
    drawn = random.Random(2)
    return [
        {
            "arm": ("ipv4", "ipv6")[at % 2], "warmup": at < 2, "columns": ["dns", "total"], "rows": 100,
            "offset": 1600 * at, "samples_crc32": drawn.getrandbits(32), "failed": {"timeout": 1} if at == 7 else {},
            "began_at": 1.7e9 + drawn.random(), "values": {"response_time": drawn.random(), "gap": None},
        }
        for at in range(count)
    ]  # fmt: skip


@pytest.mark.parametrize("packed_after", [(), (12,), (5, 12), (0, 12)], ids=str)
def test_facts_are_those_that_were_added(packed_after):
    kept, facts = PackedFacts(), runs(12)
    assert (len(kept), list(kept)) == (0, [])
    for at in range(13):
        if at in packed_after:
            kept.pack()
        if at < 12:
            kept.append(facts[at])
    assert (len(kept), list(kept), kept[3], kept[-2:]) == (12, facts, facts[3], facts[-2:])


def test_packed_facts_take_a_tenth_of_their_memory():
    def taken(*, packed):
        gc.collect()
        tracemalloc.start()
        kept = PackedFacts()
        for each in runs(72):
            kept.append(each)
        if packed:
            kept.pack()
        gc.collect()
        found = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return found / len(kept)

    assert taken(packed=True) < taken(packed=False) / 10
