"""Finalizers without work are removed between items, and fixtures are torn down as they would be without that."""

from tests.support.sessions.xdist_workers import add_hook

# Fixtures of several scopes, which depend on parameters of the session, on each other and on nothing.
FIXTURES = """
    import contextlib
    import pytest

    STEPS, WHOLE = [], []

    @contextlib.contextmanager
    def step(name):
        STEPS.append(f"set up {name}")
        yield name
        STEPS.append(f"tear down {name}")

    @pytest.fixture(scope="session")
    def whole():
        with step("whole"):
            yield

    @pytest.fixture(scope="session")
    def of_protocol(protocol, whole):
        with step(protocol):
            yield

    @pytest.fixture(scope="session")
    def of_connections(connections, whole):
        with step(f"connections {connections}"):
            yield

    @pytest.fixture(scope="module")
    def of_module(of_protocol):
        with step("module"):
            yield

    @pytest.fixture
    def of_item(of_connections, of_module, whole):
        with step("item"):
            yield

    @pytest.fixture(autouse=True)
    def of_arm(of_item, ipver, whole):
        with step(f"arm {ipver}"):
            yield

    @pytest.hookimpl(tryfirst=True)
    def pytest_fixture_setup(fixturedef):
        if fixturedef.argname == "whole":
            WHOLE.append(fixturedef)

    def pytest_unconfigure():
        with open("steps", "w") as file:
            print(*STEPS, sep="\\n", file=file)
"""
NAMED = """
    def pytest_runtest_logstart():
        functions = [getattr(finalizer, "func", None) for each in WHOLE for finalizer in each._finalizers]
        kept = sorted(each.__self__.argname for each in functions if hasattr(each, "__self__"))
        STEPS.append(f"kept of {kept}")
"""
UNREGISTERED = """
    def pytest_collection_finish(session):
        assert session.config.pluginmanager.unregister(name="ipperf-finished-fixtures")
"""


def steps(project, *hooks):
    """Return what the fixtures of two items did, in a session with these hooks."""
    project.network()
    for hook in (FIXTURES, *hooks):
        add_hook(project, hook)
    project.run().assert_outcomes(passed=2)
    return (project.pytester.path / "steps").read_text().splitlines()


def test_fixtures_are_torn_down_in_the_same_order(project):
    released = steps(project)
    assert released == steps(project, UNREGISTERED)
    of_item = ["set up item", "set up arm 6", "tear down arm 6", "tear down item"]
    assert [each for each in released if each.endswith(("item", "arm 6"))] == 2 * of_item
    assert released[-1] == "tear down whole"


def test_finalizers_without_work_are_removed(project):
    """Those of fixtures of the session stay, as these still have a value."""
    kept = [each for each in steps(project, NAMED) if each.startswith("kept")]
    assert kept == ["kept of []", "kept of ['of_connections', 'of_protocol']"]
