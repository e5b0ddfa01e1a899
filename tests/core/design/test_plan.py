import math
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.design.cell import Arm, Workload
from pytest_ipperf.core.design.design import DESIGNS, design_named
from pytest_ipperf.core.design.plan import WARMUP, confirmed_by, confirming_plan, plan_for
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.factor import StudySize

ARMS = [Arm(4, "native"), Arm(6, "native"), Arm(6, "tunnel")]
WORKLOAD = Workload(testbed="lab", protocol="smtp", client="lean", connections=10, payload_bytes=1024)


@given(st.sampled_from(sorted(DESIGNS)), st.integers(0, 2**31), st.permutations(ARMS))
def test_every_block_holds_every_arm_once_and_the_seed_alone_decides(name, seed, arms):
    design = DESIGNS[name]
    plan = plan_for(WORKLOAD, arms, design, seed)
    assert plan == plan_for(WORKLOAD, ARMS, design, seed)
    assert len(plan.epochs) == design.epochs * design.looks
    assert [epoch.number for epoch in plan.epochs] == list(range(design.most_epochs))
    for epoch in plan.epochs:
        assert [sorted(block) for block in (epoch.warmups, *epoch.blocks)] == [sorted(ARMS)] * (design.blocks + 1)
    assert plan.runs == design.most_epochs * (design.blocks + 1) * len(ARMS)
    assert plan.runs == plan.first_runs * design.looks


@given(st.sampled_from(sorted(DESIGNS)), st.integers(0, 2**31))
def test_looks_divide_the_epochs(name, seed):
    design = DESIGNS[name]
    plan = plan_for(WORKLOAD, ARMS, design, seed)
    looks = [plan.look(number) for number in range(plan.looks)]
    assert sum(looks, ()) == plan.epochs
    assert [plan.epochs_by(number + 1) for number in range(plan.looks)] == [
        sum(map(len, looks[: number + 1])) for number in range(plan.looks)
    ]
    assert plan.runs_of(looks[-1], ARMS[:2]) == 2 * design.epochs * (design.blocks + 1)


def test_the_order_of_the_first_look_does_not_depend_on_how_many_follow():
    standard = DESIGNS["standard"]
    alone = plan_for(WORKLOAD, ARMS, replace(standard, looks=1), 1)
    assert plan_for(WORKLOAD, ARMS, standard, 1).look(0) == alone.epochs


def test_both_orders_of_a_pair_come_about_as_often():
    """1800 fair coins: outside 810..990 less than once in 40,000; the seed is fixed besides."""
    first = Counter(
        block[0] for seed in range(150) for epoch in plan_for(WORKLOAD, ARMS[:2], DESIGNS["quick"], seed).epochs
        for block in epoch.blocks
    )  # fmt: skip
    assert 810 <= first[ARMS[0]] <= 990


def test_workloads_of_one_seed_have_orders_of_their_own():
    other = Workload(testbed="lab", protocol="http", client="lean", connections=10, payload_bytes=1024)
    design = DESIGNS["standard"]
    assert plan_for(WORKLOAD, ARMS, design, 1).epochs != plan_for(other, ARMS, design, 1).epochs


def test_the_order_of_a_seed_is_the_same_on_every_machine_and_release():
    """A change here would make the seeds in all records useless."""
    plan = plan_for(WORKLOAD, ARMS[:2], DESIGNS["smoke"], 1)
    rows = [[str(arm) for arm in row] for epoch in plan.epochs for row in (epoch.warmups, *epoch.blocks)]
    assert rows == [["ipv6", "ipv4"], ["ipv4", "ipv6"], ["ipv4", "ipv6"], ["ipv4", "ipv6"]]


def test_a_design_says_how_much_it_measures():
    assert DESIGNS["quick"].size_text() == "6 epochs x 2 blocks"
    assert DESIGNS["standard"].size_text() == "1 to 5 looks of 6 epochs x 2 blocks"


def test_an_unknown_design_is_named_beside_the_known_ones():
    with pytest.raises(UsageError, match=f"design 'fast' does not exist; there are {', '.join(DESIGNS)}$"):
        design_named("fast")


@pytest.mark.parametrize(
    ("name", "epochs", "blocks"), [("quick", 10, 6), ("standard", 10, 6), ("nightly", 10, 6), ("rfc8219", 20, 1)]
)
def test_fresh_epochs_are_as_many_as_a_nights_and_no_fewer_than_the_designs(name, epochs, blocks):
    design, fresh = DESIGNS[name], DESIGNS[name].confirming()
    assert (fresh.epochs, fresh.blocks, fresh.looks) == (epochs, blocks, 1)
    assert replace(fresh, epochs=design.epochs, blocks=design.blocks, looks=design.looks) == design
    plan = confirming_plan(WORKLOAD, ARMS[:2], design, 1)
    assert plan.runs == epochs * (blocks + 1) * 2
    assert (plan.name, plan.looks) == (f"{WORKLOAD}-confirm", 1)


def test_fresh_epochs_have_an_order_of_their_own_that_follows_from_the_seed():
    design = DESIGNS["quick"]
    plan, again, other = (confirming_plan(WORKLOAD, ARMS, design, seed) for seed in (1, 1, 2))
    assert plan == again
    assert plan.epochs != other.epochs
    assert plan.seed != 1
    further = confirming_plan(WORKLOAD, ARMS, design, 1, 12)
    assert (further.epochs != plan.epochs, further.name) == (True, f"{WORKLOAD}-confirm-12")
    assert [confirmed_by(each.name) for each in (plan, further)] == [(str(WORKLOAD), 1), (str(WORKLOAD), 12)]
    first = plan_for(WORKLOAD, ARMS, design.confirming(), 1)
    assert (plan.epochs != first.epochs, first.name) == (True, str(WORKLOAD))


def test_without_parts_runs_are_made_block_by_block():
    epoch = plan_for(WORKLOAD, ARMS, DESIGNS["quick"], 1).epochs[0]
    blocks = (epoch.warmups, *epoch.blocks)
    assert [*epoch.places()] == [
        (number, slot, arm) for number, block in enumerate(blocks, start=WARMUP) for slot, arm in enumerate(block)
    ]


def test_the_parts_of_a_run_follow_each_other_and_count_as_blocks():
    design = replace(DESIGNS["quick"], run_s=900.0, own_duration=True).in_parts(300.0)
    assert (design.blocks, design.parts, design.run_s) == (6, 3, 300.0)
    for epoch in plan_for(WORKLOAD, ARMS, design, 1).epochs:
        places = [*epoch.places()][len(ARMS) :]
        assert Counter(places) == Counter(
            (block, slot, arm) for block in range(6) for slot, arm in enumerate(epoch.blocks[block])
        )
        thirds = [places[at : at + 3] for at in range(0, len(places), 3)]
        assert all(len({arm for _, _, arm in third}) == 1 for third in thirds)
        assert {tuple(block for block, _, _ in third) for third in thirds} == {(0, 1, 2), (3, 4, 5)}


def test_a_run_that_is_short_enough_is_not_divided():
    assert DESIGNS["quick"].in_parts(300.0) == DESIGNS["quick"]
    assert DESIGNS["quick"].in_parts(math.inf) == DESIGNS["quick"]


STUDY = StudySize(epochs=1, blocks=1, run_s=28800.0, in_order=True)


def test_only_design_paper_has_the_size_of_a_study():
    assert DESIGNS["quick"].for_study(STUDY) == DESIGNS["quick"]
    assert DESIGNS["paper"].for_study(None) == DESIGNS["paper"]
    sized = DESIGNS["paper"].for_study(STUDY)
    assert (sized.epochs, sized.blocks, sized.run_s, sized.in_order) == (1, 1, 28800.0, True)


def test_a_duration_of_ones_own_comes_before_the_studys_even_if_it_is_the_designs():
    design = replace(DESIGNS["paper"], own_duration=True)
    assert design.for_study(STUDY).run_s == DESIGNS["paper"].run_s


def test_in_order_every_arm_has_all_its_runs_before_the_next_one():
    design = DESIGNS["paper"].for_study(STUDY).in_parts(300.0)
    (epoch,) = plan_for(WORKLOAD, [*reversed(ARMS)], design, 1).epochs
    assert [arm for _, _, arm in epoch.places()] == [*sorted(ARMS), *(arm for arm in sorted(ARMS) for _ in range(96))]
