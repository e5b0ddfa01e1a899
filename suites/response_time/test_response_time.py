"""Application response times (paper 000): from the first socket's opening to the end of the transaction.

The grids are the study's. The study gives no sizes of page, file and messages, and has no DNS (docs/paper-000.md).
"""

import pytest


@pytest.mark.smtp
@pytest.mark.levels(connections=[1, 10, 100], payload=["1k"])
@pytest.mark.grid(connections=[1, 10, 100, 500])
@pytest.mark.margin("10%", at_least="0.5ms")
def test_smtp_response_time(measured, margin):
    assert measured.slowdown <= margin


@pytest.mark.http
@pytest.mark.levels(connections=[1, 10, 100], payload=["10k"])
@pytest.mark.grid(connections=[1, 10, 100, 500, 1000, 5000])
@pytest.mark.margin("10%", at_least="0.1ms")
def test_http_response_time(measured, margin):
    assert measured.slowdown <= margin


@pytest.mark.ftp
@pytest.mark.levels(connections=[1, 10, 100], payload=["100k"])
@pytest.mark.margin("10%", at_least="0.5ms")
def test_ftp_response_time(measured, margin):
    assert measured.slowdown <= margin


@pytest.mark.imap
@pytest.mark.levels(connections=[1, 10, 100], payload=["1k"])
@pytest.mark.grid(connections=[1, 10, 100, 200])
@pytest.mark.margin("10%", at_least="0.5ms")
def test_imap_response_time(measured, margin):
    assert measured.slowdown <= margin


@pytest.mark.dns
@pytest.mark.levels(connections=[1, 10, 100], payload=["34"])
@pytest.mark.grid(connections=[1, 10, 100, 1000])
@pytest.mark.margin("10%", at_least="0.1ms")
def test_dns_response_time(measured, margin):
    assert measured.slowdown <= margin
