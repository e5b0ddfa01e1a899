from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.design.cell import Arm, Cell, Workload
from pytest_ipperf.core.portable.errors import UsageError

transports = st.text("abtuz059", min_size=1, max_size=9)
levels = st.just("") | st.from_regex(r"[a-z]{1,9}_[a-z0-9.]{1,9}", fullmatch=True)
arms = st.builds(Arm, st.just(4), st.just("native"), st.booleans(), levels) | st.builds(
    Arm, st.just(6), transports, st.booleans(), levels
)
words = st.text("abcz", min_size=1, max_size=5)
workloads = st.builds(
    Workload,
    testbed=words,
    protocol=words,
    client=st.sampled_from(["lean", "library"]),
    connections=st.integers(1, 5000),
    payload_bytes=st.integers(1, 2**31),
    rate_per_s=st.just(0.0) | st.floats(1e-6, 1e6),
    workers=st.integers(1, 64),
)


@given(arms)
def test_arm_round_trips(arm):
    assert Arm.parse(str(arm)) == arm


@pytest.mark.parametrize(
    ("arm", "text", "title"),
    [
        (Arm(4, "native"), "ipv4", "IPv4"),
        (Arm(6, "native"), "ipv6", "IPv6"),
        (Arm(6, "tunnel"), "ipv6-tunnel", "IPv6 tunnel"),
        (Arm(4, "native", twin=True), "ipv4-twin", "IPv4 twin"),
        (Arm(6, "native", twin=True), "ipv6-twin", "IPv6 twin"),
        (Arm(6, "tunnel", twin=True), "ipv6-tunnel-twin", "IPv6 tunnel twin"),
        (Arm(6, "native", level="offload_off"), "ipv6-offload_off", "IPv6 offload off"),
        (Arm(6, "tunnel", twin=True, level="window_64k"), "ipv6-tunnel-window_64k-twin", "IPv6 tunnel window 64k twin"),
    ],
)
def test_arm_has_a_name_and_a_title(arm, text, title):
    assert (str(arm), arm.title) == (text, title)


@pytest.mark.parametrize("text", ["", "ipv5", "ipv6-", "IPv6", "6", "ipv6-Tunnel", "ipv6 tunnel", "ipv4\n"])
def test_arm_names_what_is_no_arm(text):
    with pytest.raises(UsageError) as caught:
        Arm.parse(text)
    assert str(caught.value) == f"arm {text!r} is not of the form ipv4, ipv6 or ipv6-TRANSPORT"


def test_what_does_not_exist_cannot_be_made():
    with pytest.raises(UsageError, match=r"^IPv4 with transport 'tunnel' does not exist; IPv4 is always native here$"):
        Arm(4, "tunnel")
    with pytest.raises(UsageError, match=r"^IP version 5 does not exist; there are 4 and 6$"):
        Arm(5, "native")
    with pytest.raises(UsageError, match=r"^IPv4 with transport 'isatap' does not exist"):
        Arm.parse("ipv4-isatap")
    with pytest.raises(UsageError, match=r"^transport 'twin' does not exist; ipv6-twin is an arm measured twice$"):
        Arm(6, "twin")
    with pytest.raises(UsageError, match=r"^transport 'twin' does not exist"):
        Arm.parse("ipv6-twin-twin")


def test_the_reference_sorts_first():
    arms_of_a_lab = [
        Arm(6, "tunnel"),
        Arm(6, "native"),
        Arm(4, "native", twin=True),
        Arm(4, "native"),
        Arm(6, "isatap"),
    ]
    assert str(min(arms_of_a_lab)) == "ipv4"


def test_cell_text_is_the_pytest_id():
    workload = Workload(testbed="lab", protocol="smtp", client="lean", connections=10, payload_bytes=1024)
    assert str(workload) == "lab-smtp-c10-1k"
    assert str(Cell(workload, Arm(6, "tunnel"))) == "lab-smtp-c10-1k-ipv6-tunnel"
    assert str(Cell(workload, Arm(4, "native", twin=True))) == "lab-smtp-c10-1k-ipv4-twin"


def test_a_cell_names_its_client_where_it_is_not_the_usual_one():
    workload = Workload(testbed="lab", protocol="smtp", client="library", connections=10, payload_bytes=1024)
    assert str(Cell(workload, Arm(6, "native"))) == "lab-smtp-library-c10-1k-ipv6"


@pytest.mark.parametrize(
    ("rate_per_s", "workers", "text"),
    [
        (200.0, 1, "lab-http-c300-10k-r200"),
        (0.5, 1, "lab-http-c300-10k-r0.5"),
        (0.0, 2, "lab-http-c300-10k-w2"),
        (1000.0, 4, "lab-http-c300-10k-r1000-w4"),
    ],
)
def test_a_workload_names_its_arrivals_and_workers_where_they_are_not_the_usual_ones(rate_per_s, workers, text):
    assert text == str(Workload(testbed="lab", protocol="http", client="lean", connections=300, payload_bytes=10240,
                                rate_per_s=rate_per_s, workers=workers))  # fmt: skip


@given(workloads, arms, workloads, arms)
def test_cells_share_a_text_only_when_they_are_the_same(workload, arm, other_workload, other_arm):
    cell, other = Cell(workload, arm), Cell(other_workload, other_arm)
    assert (str(cell) == str(other)) == (cell == other)


def test_cells_are_values():
    workload = Workload(testbed="lab", protocol="smtp", client="lean", connections=10, payload_bytes=1024)
    assert len({Cell(workload, Arm(4, "native")), Cell(workload, Arm(4, "native"))}) == 1
    with pytest.raises(FrozenInstanceError):
        workload.connections = 11  # type: ignore[misc]
