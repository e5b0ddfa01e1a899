"""Cost of the plugin in a project that measures nothing: processor time of pytest with and without it, interleaved.

    python benchmarks/startup.py [--pairs 15] [--uncached] [--python PYTHON]

Each pair runs pytest on a project with one empty test, once with the plugin and once with `-p no:ipperf`, in random
order, and takes the user and system time of the whole process. The machine may be busy, as the runs of a pair are
adjacent and the median of the differences counts.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

WITHOUT = ("-p", "no:ipperf")
# Other plugins are disabled in both: they might load modules that this one would have to load.
COMMON = ("-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:allure_pytest", "-p", "no:hypothesispytest")
AT_MOST_S = 0.1
_UNCACHED = "PYTHONDONTWRITEBYTECODE"


def cpu_s(asked: argparse.Namespace, project: Path, *arguments: str) -> float:
    """Return the processor seconds of a session, user and system; CalledProcessError if it fails."""
    environment = {name: value for name, value in os.environ.items() if name != _UNCACHED}
    if asked.uncached:
        environment[_UNCACHED] = "1"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [asked.python, "-m", "pytest", *COMMON, *arguments]
    subprocess.run(command, cwd=project, env=environment, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def pair(asked: argparse.Namespace, project: Path) -> tuple[float, float]:
    """Return the processor seconds with the plugin and without it, one run each in random order."""
    found = {}
    for own in random.sample([(), WITHOUT], 2):
        found[own] = cpu_s(asked, project, *own)
    return found[()], found[WITHOUT]


def spread(values: list[float]) -> str:
    """Return the median with the quartiles, in milliseconds."""
    low, middle, high = (f"{1000 * value:.0f}" for value in statistics.quantiles(values, n=4))
    return f"{middle:>6} ms   (quartiles {low} to {high})"


def main() -> int:
    """Print the figures; return 1 if the plugin costs more than it may."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=15, help="how often each is run; default 15")
    parser.add_argument("--uncached", action="store_true", help="let Python write no bytecode")
    parser.add_argument("--python", default=sys.executable, help="the Python whose pytest is run; default this one")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ipperf-startup-") as folder:
        project = Path(folder)
        (project / "test_one.py").write_text("def test_one():\n    pass\n", encoding="utf-8")
        pair(asked, project)  # writes the bytecode
        pairs = [pair(asked, project) for _ in range(asked.pairs)]
    added = [with_it - without for with_it, without in pairs]
    print(f"{'with the plugin':<18}{spread([each for each, _ in pairs])}")
    print(f"{'without':<18}{spread([each for _, each in pairs])}")
    print(f"{'difference':<18}{spread(added)}")
    ratio = statistics.median(with_it / without for with_it, without in pairs)
    print(f"{'ratio':<18}{ratio:>6.3f}      of {len(pairs)} pairs, Python {sys.version.split()[0]}")
    return int(statistics.median(added) > AT_MOST_S)


if __name__ == "__main__":
    sys.exit(main())
