"""The closest match of a mistyped word."""

import pytest

from pytest_ipperf.core.closest_match import closest_match, did_you_mean

THERE = ["smtp", "http", "imap", "loopback"]


@pytest.mark.parametrize(
    ("name", "found"), [("smpt", "smtp"), ("htpp", "http"), ("lopback", "loopback"), ("zzz", ""), ("", "")]
)
def test_the_nearest_is_close_or_none(name, found):
    assert closest_match(name, THERE) == found
    assert did_you_mean(name, iter(THERE)) == (f"; did you mean {found!r}?" if found else "")


def test_a_long_text_is_no_mistyped_name():
    assert closest_match("loopback" * 10_000_000, ["loopback" * 10_000_000]) == ""
