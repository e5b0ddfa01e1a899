"""Bytes that the main process of a session has allocated after given numbers of cells, counted by tracemalloc."""

TRACED = """
    import gc
    import os
    import time
    import tracemalloc
    import pytest
    from pytest_ipperf.store import spool

    spool._IN_MEMORY_BYTES = 0
    AFTER, ENDED = {after!r}, []

    def taken(nodeid):
        return os.path.join("taken", nodeid.partition("[")[2])  # pathlib would intern it, and trace the table of that

    def pytest_configure(config):
        if not hasattr(config, "workerinput"):
            os.mkdir("taken")
            tracemalloc.start()

    def pytest_runtest_logstart():
        while not tracemalloc.is_tracing() and ENDED and not os.path.exists(taken(ENDED[-1])):
            time.sleep(0.01)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(nodeid):
        ENDED.append(str(nodeid))
        if not tracemalloc.is_tracing():
            return
        os.mknod(taken(ENDED[-1]))
        if len(ENDED) in AFTER:
            gc.collect()
            with open("traced", "a") as log:
                print(tracemalloc.get_traced_memory()[0], file=log)
"""
"""Text to append to the conftest of a session on a simulated network; `after` are the numbers of cells.

The file `traced` then has a number of bytes for each. A worker of xdist waits until the controller has taken its last
cell, and caches and spools are written at once, as what is on its way is not what is kept.
"""
