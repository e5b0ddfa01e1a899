"""The word that somebody probably meant."""

import pytest

from pytest_ipperf.core.closest_match import meant, nearest

THERE = ["smtp", "http", "imap", "loopback"]


@pytest.mark.parametrize(
    ("name", "found"), [("smpt", "smtp"), ("htpp", "http"), ("lopback", "loopback"), ("zzz", ""), ("", "")]
)
def test_the_nearest_is_close_or_none(name, found):
    assert nearest(name, THERE) == found
    assert meant(name, iter(THERE)) == (f"; did you mean {found!r}?" if found else "")


def test_a_long_text_is_no_mistyped_name():
    assert nearest("loopback" * 10_000_000, ["loopback" * 10_000_000]) == ""
