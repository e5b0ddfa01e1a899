"""Records that are kept to the end of a session are those that were kept."""

import random
from typing import Any

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.records.arm_summary import ArmSummary
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.store.kept_records import KeptRecords

SENTENCES = ("slower by 4 %", "größer", "")


def of_cells(count):
    """Return records of cells that differ in their figures, as those of a session do."""
    drawn = random.Random(7)
    side = ArmSummary(
        arm=Arm(6, "native"), values=(), attempted=6, completed=6, failed={}, phases={"dns": 0.001, "total": 0.01}
    )
    facts: dict[str, Any] = {
        "testbed": "lab", "protocol": "smtp", "connections": 10, "payload_bytes": 1024, "ipver": 6,
        "transport": "native", "twin": False, "client": "lean", "server": "postfix 3.7.11", "metric": "response_time",
        "design": "quick", "judges": True, "seed": 1, "look": 1, "looks": 1, "epochs": 6, "blocks": 2,
        "deadline_s": 10.0, "test": side, "reference": side, "confidence": 0.95, "sd_epoch": 0.02, "sd_block": None,
        "margin": "", "margin_fraction": None, "alpha": 0.05, "verdict": "within", "reasons": ("noise",),
    }  # fmt: skip
    return [
        Record(
            **facts, cell=f"lab-smtp-c{at}-1k-ipv6", sentence=SENTENCES[at % 3],
            estimate=drawn.gauss(), low=drawn.gauss(), high=drawn.gauss(),
        )
        for at in range(count)
    ]  # fmt: skip


def test_records_are_read_as_they_were_kept():
    kept, records = KeptRecords(), of_cells(5)
    assert not kept
    assert kept.read() == []
    for record in records[:3]:
        kept.append(record.to_json())
    assert kept.read() == kept.read() == records[:3]
    for record in records[3:]:
        kept.append(record.to_json())
    assert len(kept) == 5
    assert kept.read() == records


def test_released_records_are_read_again():
    kept, records = KeptRecords(), of_cells(3)
    for record in records:
        kept.append(record.to_json())
    (first, *_) = kept.read()
    assert kept.read()[0] is first
    kept.release()
    assert kept.read()[0] is not first
    assert kept.read() == records
