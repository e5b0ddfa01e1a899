"""The ledger adds up, and its sentences give every second once."""

from pytest_ipperf.core.measurement.time_ledger import (
    ACTIVITIES,
    BETWEEN,
    EPOCHS,
    MEASURED,
    OTHERS,
    WARMUP,
    TimeLedger,
)

ONE = {"measured": 30.0, "warmup": 15.0, "drain": 3.0, "build": 10.0, "rest": 1.0}
OTHER = {"measured": 30.0, "finish": 7.0, "proof": 4.0}


def test_each_activity_is_in_one_group():
    assert sorted(ACTIVITIES) == sorted((MEASURED, WARMUP, *BETWEEN, *EPOCHS, *OTHERS))


def test_shares_are_of_all_seconds():
    ledger = TimeLedger.total_of([ONE, OTHER])
    assert ledger.wall_s == 100
    assert ledger.of("drain", "finish") == 10
    assert (ledger.share(MEASURED), ledger.share(WARMUP), ledger.neither) == (0.6, 0.15, 0.25)


def test_sentences_name_every_activity_that_took_time():
    assert TimeLedger.total_of([ONE, OTHER]).sentences == [
        "time: 100.0 s, 60% in measured runs, 15% in warm-ups, 25% in neither",
        "time, between runs: 10.0 s (drain 3.0, finish 7.0)",
        "time, epochs: 14.0 s (build 10.0, proof 4.0)",
        "time, others: 1.0 s (rest 1.0)",
    ]


def test_an_empty_ledger_says_nothing():
    assert TimeLedger().sentences == []
    assert TimeLedger().neither == 0
