"""Import the modules of inner sessions, the package too, once in the process from which they are forked.

Otherwise pytest would rewrite the assertions of all plugins in each session, as it may keep no bytecode; that takes
longer than the rest of a session's start.
"""

import gc
import importlib
import inspect
import pkgutil

import pytest_ipperf
from tests.support.sessions.library_preload import opt_out_of_rewriting

for _module in pkgutil.walk_packages(pytest_ipperf.__path__, "pytest_ipperf."):
    importlib.import_module(_module.name)
opt_out_of_rewriting(pytest_ipperf)

from pytest_ipperf.lab.agents.code_archive import code_file, digests  # noqa: E402 - loaded last, to be called
from tests.support.sessions.forked_agents import install  # noqa: E402 - likewise

code_file(), digests()
install()
# A session that reports a failure looks for the module of its code among the files of all modules, which takes 50 ms
# the first time.
inspect.getmodule(compile("", "<any>", "exec"))
# Keeps garbage collection in sessions from visiting these objects and copying their pages, and from being frequent:
# most sessions end before their garbage amounts to anything, and pytest collects it at their end.
gc.collect()
gc.freeze()
gc.set_threshold(100_000, 50, 100)
