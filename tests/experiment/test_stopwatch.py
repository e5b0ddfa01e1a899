"""Each second is charged to one activity."""

import contextlib

import pytest

from pytest_ipperf.experiment.stopwatch import Stopwatch


class Clock:
    """A clock that is set by hand."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now

    def after(self, seconds):
        self.now += seconds


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def watch(clock):
    return Stopwatch(clock)


def test_a_second_belongs_to_the_innermost_activity(clock, watch):
    clock.after(1)
    with watch.activity("build"):
        clock.after(2)
        with watch.activity("proof"):
            clock.after(4)
        clock.after(8)
    clock.after(16)
    assert watch.take() == {"rest": 17, "build": 10, "proof": 4}


def test_a_second_is_taken_once(clock, watch):
    with watch.activity("run"):
        clock.after(3)
        assert watch.take() == {"run": 3}
        clock.after(5)
    assert watch.take() == {"run": 5}
    assert watch.take() == {}


def test_parts_of_an_activity_are_moved_and_never_more_than_it_took(clock, watch):
    with watch.activity("run"):
        clock.after(3)
        watch.move(2, "measured")
        watch.move(2, "drain")
    assert watch.take() == {"measured": 2, "drain": 1}


def test_a_context_is_charged_at_its_entry_and_its_exit_alone(clock, watch):
    @contextlib.contextmanager
    def testbed():
        clock.after(1)
        yield "it"
        clock.after(4)

    with watch.around(testbed(), "build", "teardown") as entered:
        assert entered == "it"
        clock.after(2)
    assert watch.take() == {"build": 1, "rest": 2, "teardown": 4}


def test_an_error_within_a_context_reaches_it_and_is_charged(clock, watch):
    seen = []

    @contextlib.contextmanager
    def testbed():
        try:
            yield
        except ValueError as error:
            seen.append(error)
            clock.after(4)
            raise

    with pytest.raises(ValueError, match="broken") as raised, watch.around(testbed(), "build", "teardown"):
        raise ValueError("broken")
    assert seen == [raised.value]
    assert watch.take() == {"teardown": 4}


def test_a_context_that_cannot_be_entered_is_not_left(clock, watch):
    @contextlib.contextmanager
    def testbed():
        clock.after(2)
        if clock.now > 0:
            raise ValueError("no")
        yield

    with pytest.raises(ValueError, match="no"), watch.around(testbed(), "build", "teardown"):
        pytest.fail("it was entered")
    assert watch.take() == {"build": 2}
