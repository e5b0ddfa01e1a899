import pytest

from pytest_ipperf.core.measurement.run import leading

FAILED = {"talk reset": 3, "dns deadline": 7, "connect refused": 3, "talk closed": 1, "talk deadline": 1}


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (9, {"dns deadline": 7, "connect refused": 3, "talk reset": 3, "talk closed": 1, "talk deadline": 1}),
        (2, {"dns deadline": 7, "connect refused": 3, "other kinds": 5}),
        (0, {"other kinds": 15}),
    ],
)
def test_the_most_frequent_kinds_are_told_and_none_is_lost(most, expected):
    assert list(leading(FAILED, most).items()) == list(expected.items())
    assert leading({}, most) == {}
