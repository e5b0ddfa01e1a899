"""Settings for the project's own tests: hypothesis profiles, pytest's tester, and what runs only when asked for."""

import os
import signal

import hypothesis
import pytest

# pytest refuses this line in a conftest that it meets after its start. The tests' own is always met at the start,
# and at the top level it would load the tester into every measurement.
pytest_plugins = ["pytester", "tests.uml.guest"]

# The same examples in every run, and no deadline, because a measuring machine is busy at times.
hypothesis.settings.register_profile("project", derandomize=True, deadline=None)
hypothesis.settings.register_profile("long", derandomize=True, deadline=None, max_examples=5000)
hypothesis.settings.load_profile(os.environ.get("IPPERF_HYPOTHESIS", "project"))


# A shell starts what it puts in the background with Ctrl-C ignored, every child inherits that, and the tests that end
# one by Ctrl-C would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "evidence: takes minutes; runs only when -m names it (make evidence)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "evidence" in config.getoption("markexpr"):
        return
    evidence = [item for item in items if item.get_closest_marker("evidence")]
    if evidence:
        config.hook.pytest_deselected(items=evidence)
        items[:] = [item for item in items if item not in evidence]
