"""Import the libraries of inner sessions, once in the process from which they are forked."""

import gc
import importlib
import sys
from importlib.metadata import entry_points
from types import ModuleType

from _pytest.config import default_plugins


def opt_out_of_rewriting(plugin: ModuleType) -> None:
    """Mark a plugin as one whose assertions are not rewritten; pytest warns of others that are imported already."""
    plugin.__doc__ = f"{plugin.__doc__}\nPYTEST_DONT_REWRITE"


for _name in (
    *(f"_pytest.{each}" for each in default_plugins),
    "_strptime",
    "aiohttp",
    "allure_pytest.plugin",
    "execnet",
    "matplotlib.backends.backend_svg",
    "matplotlib.figure",
    "numpy",
    "pytest",
    "readline",
    "scipy.special",
    "xdist.dsession",
    "xdist.looponfail",
    "xdist.plugin",
):
    importlib.import_module(_name)
_plugins = {each.module.split(".")[0] for each in entry_points(group="pytest11")}
for _plugin in (_plugins | {f"_pytest.{each}" for each in default_plugins}) & {*sys.modules}:
    opt_out_of_rewriting(sys.modules[_plugin])
# Keeps garbage collection in sessions from visiting these objects and copying their pages, and from being frequent:
# most sessions end before their garbage amounts to anything, and pytest collects it at their end.
gc.collect()
gc.freeze()
gc.set_threshold(100_000, 50, 100)
