"""Import the libraries of inner sessions, once in the process from which they are forked."""

import gc
import importlib

for _name in (
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
):
    importlib.import_module(_name)
# Keeps garbage collection in sessions from visiting these objects and copying their pages, and from being frequent:
# most sessions end before their garbage amounts to anything, and pytest collects it at their end.
gc.collect()
gc.freeze()
gc.set_threshold(100_000, 50, 100)
