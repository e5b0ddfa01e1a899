"""End of a measurement whose reference completes nothing."""

import dataclasses

import pytest

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.measurement.run import Run
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.core.portable.workload_kind import QUERIES, TRANSFERS
from pytest_ipperf.experiment.reference_check import check_reference
from pytest_ipperf.lab.runs.result import ServerEndpoint

SERVER = ServerEndpoint("bind", "9.18.49", False, 53, 53, "bind 9.18.49")  # noqa: FBT003 - a field, not a choice


def run(attempted, failed):
    return Run(
        arm=Arm(4, "native"), epoch=0, block=0, slot=0, warmup=False, started_at=0.0, attempted=attempted,
        failed=failed, values={},
    )  # fmt: skip


def test_queries_that_nobody_answers_rightly_are_named_by_their_kinds():
    with pytest.raises(LabError) as caught:
        check_reference(QUERIES, [run(5, {"no answer": 3, "protocol: REFUSED": 2})], SERVER)
    assert str(caught.value) == (
        "none of 5 queries of the reference ipv4 was answered rightly (no answer: 3, protocol: REFUSED: 2), so there "
        "is nothing to compare with; is the name server bind 9.18.49 well?"
    )


@pytest.mark.parametrize("found", [run(2, {"no answer": 2}), run(5, {"no answer": 4})], ids=["few", "one answered"])
def test_few_queries_or_one_that_was_answered_end_nothing(found):
    check_reference(QUERIES, [found], SERVER)


def test_a_transfer_that_moves_nothing_is_an_error_of_its_own():
    check_reference(TRANSFERS, [dataclasses.replace(run(3, {"transfer reset": 3}))], SERVER)
