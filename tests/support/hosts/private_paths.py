"""Private replacements of the machine's paths, for tests that leave something in them."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def tmp(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Replace the machine's /tmp and /run; unmount what is mounted below it at the end of the test."""
    with tempfile.TemporaryDirectory(prefix="ipperf-p-") as made:
        folder = Path(made)
        folder.chmod(0o755)
        monkeypatch.setenv("TMPDIR", made)
        monkeypatch.setenv("IPPERF_RUN", str(folder / "run"))
        try:
            yield folder
        finally:
            for mounted in folder.glob("ipperf-*/mounted"):
                subprocess.run(["umount", mounted], check=True)
