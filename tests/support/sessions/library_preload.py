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
# Keeps garbage collection in sessions from visiting these objects and copying their pages.
gc.collect()
gc.freeze()
