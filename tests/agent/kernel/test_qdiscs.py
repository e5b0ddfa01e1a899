"""The rates of devices, as `tc` has set them in a network namespace of their own."""

from __future__ import annotations

import ast

UP = """
for name in one two three; do ip link add $name type veth peer name $name-peer; done
tc qdisc add dev one root handle 1: stab overhead 24 linklayer ethernet tbf rate 100mbit burst 16384 limit 1514000
tc qdisc add dev two root tbf rate 40gbit burst 1mb limit 10mb
tc qdisc add dev three clsact
"""


def test_a_devices_rate_is_that_of_the_bucket_at_its_root(isolated):
    code = "from pytest_ipperf.agent.kernel.qdiscs import rates; print(rates(['one', 'two', 'three', 'one-peer']))"
    assert ast.literal_eval(isolated(code, UP)) == {"one": 1e8, "two": 4e10, "three": 0.0, "one-peer": 0.0}
