"""Both reports that paper 002 prints, word for word.

The study published no run values. Those in `paper_002/hydra1` were made to fit its histograms and statistics, and the
real program prints the study's text of them.
"""

from pathlib import Path

import pytest

from pytest_ipperf.report.studies.ministat import ministat_lines, read_data_set

FOLDER = Path(__file__).parent / "paper_002"


@pytest.mark.parametrize(
    ("report", "arms"),
    [
        ("offload", ("tcp6_default", "tcp6_nooffload")),
        ("both", ("tcp6_nooffload", "tcp4_nooffload", "tcp6_default", "tcp4_default")),
    ],
)
def test_a_report_of_the_study_is_reproduced(report, arms):
    names = [f"hydra1/test_netperf_{arm}.stat" for arm in arms]
    sets = [read_data_set(name, (FOLDER / name).read_text().splitlines()) for name in names]
    assert [*ministat_lines(sets, separate=True)] == (FOLDER / f"{report}.txt").read_text().splitlines()
