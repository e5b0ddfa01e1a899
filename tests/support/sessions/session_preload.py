"""Load what every inner session loads, once in the process that they are forked from.

In each session pytest would rewrite the assertions of all plugins anew, as it may keep no bytecode: that takes longer
than all else at a session's start, and tells nobody anything.
"""

import gc
import importlib
import pkgutil
import sys
from importlib.metadata import entry_points

import pytest_ipperf

_LIBRARIES = (
    "_pytest.config",
    "aiohttp",
    "allure_pytest.plugin",
    "execnet",
    "matplotlib.backends.backend_svg",
    "matplotlib.figure",
    "numpy",
    "pytest",
    "scipy.special",
    "xdist.plugin",
)

for _name in _LIBRARIES:
    importlib.import_module(_name)
for _module in pkgutil.walk_packages(pytest_ipperf.__path__, "pytest_ipperf."):
    importlib.import_module(_module.name)
# pytest warns of a plugin that it can no longer rewrite, unless its text asks for that.
for _plugin in {each.module.split(".")[0] for each in entry_points(group="pytest11")} & {*sys.modules}:
    sys.modules[_plugin].__doc__ = f"{sys.modules[_plugin].__doc__}\nPYTEST_DONT_REWRITE"

from pytest_ipperf.lab.agents.code_archive import digests  # noqa: E402 - it is loaded last, to be called

digests()
# No session's collection of garbage looks at this again, nor copies its pages by that.
gc.collect()
gc.freeze()
