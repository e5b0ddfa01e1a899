"""Import what runs on hosts, once in the process from which programs in networks of their own are forked."""

import gc
import importlib
import pkgutil

import pytest_ipperf
from pytest_ipperf.lab.agents.code_archive import TRAVELS

_ROOMS = {f"{pytest_ipperf.__name__}.{each.replace('/', '.')}." for each in TRAVELS if not each.endswith(".py")}


def _import_rooms() -> None:
    for room in sorted(_ROOMS):
        package = importlib.import_module(room.rstrip("."))
        for module in pkgutil.walk_packages(package.__path__, room):
            importlib.import_module(module.name)


_import_rooms()
# Keeps garbage collection in the programs from visiting these objects and copying their pages.
gc.collect()
gc.freeze()
