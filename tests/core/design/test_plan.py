from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.design.cell import Arm, Workload
from pytest_ipperf.core.design.design import DESIGNS, design_named
from pytest_ipperf.core.design.plan import confirmed_by, confirming_plan, plan_for
from pytest_ipperf.core.portable.errors import UsageError

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
