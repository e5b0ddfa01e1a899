"""DNS over TCP and UDP (paper 004, Figs 9 and 10): queries per second, their response time, and what is lost.

The study generated DNS traffic with D-ITG and compares its throughput over IPv4 and IPv6. Here a name server answers;
docs/flows.md explains the levels. `--ipperf-server=bind_forwarder` measures a cache, warm and cold.
"""

import pytest

SIZES = ["64", "320", "1k", "4k"]


@pytest.mark.dns_load
@pytest.mark.levels(carrier=["udp", "tcp"])
@pytest.mark.grid(carrier=["udp", "tcp"], payload=SIZES, qnames=["one", "unique"])
def test_dns_queries_per_second(measured, margin):
    assert measured.slowdown <= margin


@pytest.mark.dns_load
@pytest.mark.metric("query_time")
@pytest.mark.levels(carrier=["udp", "tcp"], qps=["500"])
@pytest.mark.grid(carrier=["udp", "tcp"], qps=["500", "1k", "2k", "5k"])
def test_dns_response_time(measured, margin):
    assert measured.slowdown <= margin


@pytest.mark.dns_load
@pytest.mark.metric("query_loss")
@pytest.mark.levels(carrier=["udp", "tcp"], qps=["500"])
@pytest.mark.grid(carrier=["udp", "tcp"], qps=["500", "1k", "2k", "5k"])
def test_dns_loss(measured, margin):
    assert measured.increase <= margin


@pytest.mark.dns_load
@pytest.mark.metric("query_time")
@pytest.mark.levels(payload=["2000"], qps=["500"], edns=["1232", "4096"])
@pytest.mark.grid(payload=["2000"], qps=["500"], edns=["none", "512", "1232", "4096"])
def test_dns_truncation(measured, margin):
    assert measured.slowdown <= margin
