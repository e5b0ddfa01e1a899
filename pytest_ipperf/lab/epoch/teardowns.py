"""Take the testbed of an epoch down in the background, while that of the next epoch is built."""

from __future__ import annotations

import contextlib
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Self

from pytest_ipperf.core.portable.errors import IpperfError


class Teardowns:
    """Teardown in the background, at most one at a time; use as a context manager, whose end waits for it."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._pending: Future[None] | None = None
        self._postponed: contextlib.ExitStack | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        try:
            self.finish()
        except IpperfError:
            if error is None or isinstance(error, Exception):  # a Ctrl-C is not replaced
                raise
        finally:
            self._pool.shutdown()

    def begin(self, built: contextlib.ExitStack) -> None:
        """Begin to undo what the stack holds, after an earlier teardown."""
        self.finish()
        self._pending = self._pool.submit(built.close)

    def postpone(self, built: contextlib.ExitStack) -> None:
        """Keep what the stack holds until `begin_postponed`, or at the latest until `finish`."""
        self.finish()
        self._postponed = built

    def begin_postponed(self) -> None:
        """Begin to undo what was kept, if there is anything."""
        built, self._postponed = self._postponed, None
        if built is not None:
            self.begin(built)

    def finish(self) -> None:
        """Wait until nothing is left of what was taken down; raise the error of its teardown, once."""
        self.begin_postponed()
        pending, self._pending = self._pending, None
        if pending:
            pending.result()
