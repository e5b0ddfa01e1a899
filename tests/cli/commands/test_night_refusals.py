"""Checks of the command `night` before it measures, and its status when it cannot write; pytest is not started."""

from __future__ import annotations

from argparse import Namespace

from pytest_ipperf.cli.commands.night import _check


def asked(*rest, **more):
    """Return the arguments that the command gets from its parser."""
    return Namespace(**{"saved": "night", "rest": list(rest), "baseline": "", "output": ""} | more)


def test_a_night_needs_no_arguments_of_pytest(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _check(asked())
