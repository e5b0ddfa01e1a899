"""Thousands of random data sets, compared byte by byte with what the real program prints of them."""

import math
import random
import subprocess
from pathlib import Path

import pytest

from pytest_ipperf.report.studies.ministat import CONFIDENCES, ministat_lines, read_data_set
from tests.support.needs import needs

pytestmark = [pytest.mark.host, needs("ministat")]
COUNTS = (3, 4, 5, 10, 11, 30, 31, 60, 120)
LEVELS = (0.001, 1, 6.7, 100, 8247, 1e6, -50)
SHORT, LONG = 300, 6000


def drawn(rng):
    """Return values of one of several kinds, as text."""
    count, level, spread = rng.choice(COUNTS), rng.choice(LEVELS), rng.choice((0.001, 0.03, 0.3, 1))
    draw = rng.choice((
        lambda: rng.gauss(level, abs(level) * spread),
        lambda: level * math.exp(rng.gauss(0, spread)),
        lambda: float(rng.randrange(10)),
        lambda: level,
        lambda: level + rng.choice((0, 0, 0, 1)),
        lambda: rng.uniform(-1, 1),
        lambda: 1e9 + rng.random() * 1e-3,
    ))  # fmt: skip
    digits = rng.choice((0, 1, 2, 6, None))
    return [repr(value if digits is None else round(value, digits)) for value in (draw() for _ in range(count))]


def beside(rng, values):
    """Return values near others, or of their own."""
    if rng.random() < 0.4:
        return drawn(rng)
    chosen = rng.sample(values, rng.randrange(3, len(values) + 1))
    factor = 1 + rng.choice((0, 0.01, 0.1))
    return [repr(float(value) * factor + rng.gauss(0, 1e-3)) for value in chosen]


def written(rng, values, column, delimiter):
    """Return a file with these values in a column, and lines that do not count."""
    rows = []
    for value in values:
        rows.append(delimiter.join([*(str(rng.randrange(99)) for _ in range(column - 1)), value]))
        rows[-1] += rng.choice(("", "", "", f"{delimiter}7", f"{delimiter}# 8"))
        rows += rng.choice(([], [], [], [""], ["# a comment"], [" # one"] if delimiter == " " else []))
    return "\n".join(rows) + "\n"


def compare(cases, folder, seed):
    rng, wrong = random.Random(seed), []
    for case in range(cases):
        count, column, delimiter = (
            rng.choice((1, 2, 2, 2, 3, 4, 7)),
            rng.choice((1, 1, 1, 2, 3)),
            rng.choice((" ", ",")),
        )
        values = drawn(rng)
        texts = [
            written(rng, each, column, delimiter) for each in (values, *(beside(rng, values) for _ in range(count - 1)))
        ]
        names = [str(folder / f"{number}") for number in range(count)]
        for name, text in zip(names, texts, strict=True):
            Path(name).write_text(text, encoding="ascii")
        width, level = rng.choice((74, 74, 40, 100, 20, 3)), rng.choice(CONFIDENCES)
        separate, plots, compares = rng.random() < 0.5, rng.random() < 0.9, rng.random() < 0.9
        flags = "A" * (not plots) + "n" * (not compares) + "s" * separate
        command = [
            "ministat",
            *([f"-{flags}"] if flags else []),
            "-c",
            f"{level:g}",
            "-w",
            f"{width}",
            "-C",
            f"{column}",
        ]
        done = subprocess.run(
            [*command, *(["-d", delimiter] if delimiter != " " else []), *names],
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, (done.args, done.stderr)
        delimiters = delimiter if delimiter != " " else " \t"
        sets = [
            read_data_set(name, text.splitlines(keepends=True), column=column, delimiters=delimiters)
            for name, text in zip(names, texts, strict=True)
        ]
        ours = ministat_lines(
            sets, confidence=level, width=width, separate=separate, plots=plots, compares=compares
        )  # fmt: skip
        if "".join(f"{line}\n" for line in ours) != done.stdout:
            wrong.append((case, done.args))
    return wrong


def test_short(tmp_path):
    assert compare(SHORT, tmp_path, 1) == []


@pytest.mark.evidence
def test_long(tmp_path):
    assert compare(LONG, tmp_path, 2) == []
