"""The order of fixtures of one name, of plugins and of folders' conftests, in all versions of pytest."""

import textwrap

import pytest

from tests.support.sessions.projects import SUITE


def test_a_plugin_that_is_loaded_before_ours_keeps_its_fixtures(pytester):
    pytester.syspathinsert()
    pytester.makepyfile(early="import pytest\n@pytest.fixture\ndef measured(): return 'theirs'")
    pytester.makepyfile("def test_it(measured): assert measured == 'theirs'")
    result = pytester.runpytest_inprocess("-p", "early")
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("ipperf *")


@pytest.mark.parametrize("early", [[], ["-p", "early"]])
def test_the_conftest_of_a_folder_keeps_its_fixtures(pytester, early):
    """Also beside a plugin that is loaded before ours; one name only the folder has, and one that both have."""
    pytester.syspathinsert()
    fixture = "import pytest\n@pytest.fixture\ndef {}(): return {!r}\n"
    pytester.makepyfile(early=fixture.format("measured", "the plugin's"))
    folder = pytester.mkdir("tests")  # whose conftest is loaded before the session starts
    theirs = (fixture.format(name, "the folder's") for name in ("measured", "margin"))
    (folder / "conftest.py").write_text("".join(theirs))
    (folder / "test_it.py").write_text(
        "def test_both(measured, margin): assert measured == margin == 'the folder\\'s'\n"
    )
    pytester.makepyfile("def test_above(measured): assert measured == 'the plugin\\'s'" if early else "")
    result = pytester.runpytest_inprocess(*early)
    result.assert_outcomes(passed=2 if early else 1)
    result.stdout.no_fnmatch_line("ipperf *")


def test_the_margin_of_a_folders_conftest_is_the_one_that_is_used(project):
    folder = project.pytester.mkdir("folder")
    (folder / "conftest.py").write_text(
        "import pytest\n@pytest.fixture\ndef margin(tmp_path_factory): return 'the folder\\'s'\n"
    )
    (folder / "test_it.py").write_text(textwrap.dedent(SUITE))
    result = project.ask("--setup-plan", "--connections=1", str(folder))
    plan = [line.strip() for line in result.outlines if line.strip().startswith("SETUP    F margin")]
    assert plan == ["SETUP    F margin (fixtures used: tmp_path_factory)"]
