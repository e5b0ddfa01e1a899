import json

from pytest_ipperf.core.past import Key
from pytest_ipperf.store import last_night


def test_the_next_night_is_told_which_cells_and_versions_the_last_one_had(tmp_path):
    """What was given up is expected as long as nights tell of it, since that was for a time; other names are others."""
    cells = [
        {"cell": "a", "metric": "loss", "version": "1-10x", "ruling": "within"},
        {"cell": "b", "metric": "loss", "version": "1-10x", "ruling": "missing"},
        {"cell": "c", "metric": "loss", "version": "1-10x", "ruling": "gone"},
    ]
    told = {"session": "s", "saved": "main", "status": 12, "cells": cells}
    broken = {**told, "cells": [{"cell": "a"}]}
    for name, verdict in (("1", told), ("2", broken), ("3", {**told, "saved": "other"}), ("4", told)):
        (tmp_path / "nights" / name).mkdir(parents=True)
        (tmp_path / "nights" / name / "verdict.json").write_text(json.dumps(verdict))
    found = last_night(tmp_path, "main", before="4")
    assert found is not None
    assert (found.name, found.cells) == ("1", tuple(Key(cell, "loss", "1-10x") for cell in "abc"))
    assert last_night(tmp_path, "main", before="1") is None
