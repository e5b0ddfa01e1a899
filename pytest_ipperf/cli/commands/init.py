"""The command `init`: create a project with suites, an inventory, pytest's settings and a CI recipe."""

from __future__ import annotations

import argparse
import os
import shlex
from pathlib import Path

from pytest_ipperf import __version__
from pytest_ipperf.cli import shipped_files
from pytest_ipperf.cli.commands.base import Command
from pytest_ipperf.cli.output import write_lines
from pytest_ipperf.core.portable.errors import UsageError

# Beginnings of the file names of each service's recipe in docs/ci.md.
_SERVICES = {"github": (".github/",), "gitlab": (".gitlab-ci",), "jenkins": ("Jenkinsfile",), "none": ()}
_SETTINGS = """\
# pytest's settings for this project. Those of pytest-ipperf are explained by:
#     pytest-ipperf docs suites
[pytest]
testpaths = suites
addopts = -ra --strict-markers --import-mode=importlib
# The testbed of every job; by default lab if it works on the machine, else loopback.
# ipperf_testbed = lab.100mbit
# ipperf_design = quick
# ipperf_margin = 10%,0.5ms
"""
_REQUIREMENTS = f"""\
# The source of pytest-ipperf in jobs: a name and a version, or the path of a wheel or a checkout.
pytest-ipperf=={__version__}
"""
_IGNORED = ".ipperf/\n.venv/\nreport/\n__pycache__/\n.pytest_cache/\n"
# pytest reads its settings from one file only: a second one would silently take its place, or be ignored.
_OTHER_SETTINGS = ("pytest.toml", ".pytest.toml", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "directory",
        nargs="?",
        default=".",
        metavar="DIRECTORY",
        help="the directory, created if it does not exist; default: the current one",
    )
    parser.add_argument(
        "--ci",
        choices=tuple(_SERVICES),
        default="github",
        help="CI service whose recipe is written; default github",
    )


def _run(args: argparse.Namespace) -> int:
    """Return 0; raise UsageError, before anything is written, if a file is in the way."""
    directory = Path(args.directory)
    files = _files(args.ci)
    _check(directory, files)
    _write(directory, files)
    write_lines([*(f"{directory / name}" for name in files), "", *_next(directory)])
    return 0


def _files(service: str) -> dict[str, str]:
    """Return the text of each file to write, by path."""
    recipes = {name: text for name, text in shipped_files.recipes().items() if name.startswith(_SERVICES[service])}
    return {
        **shipped_files.suites(),
        "hosts.ini": shipped_files.hosts(),
        "pytest.ini": _SETTINGS,
        "requirements.txt": _REQUIREMENTS,
        ".gitignore": _IGNORED,
        **recipes,
    }


def _check(directory: Path, files: dict[str, str]) -> None:
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory} is a file; name a directory")
    blocked = [name for name in (*files, *_OTHER_SETTINGS) if _in_the_way(directory, name)]
    if blocked:
        raise UsageError(
            f"{directory.resolve()} already has {', '.join(dict.fromkeys(blocked))}; nothing was written, "
            "name an empty directory"
        )


def _in_the_way(directory: Path, name: str) -> bool:
    """Return whether the path exists, also as a dangling link, or one of its parents is not a directory."""
    path = directory / name
    above = [each for each in path.parents if each != directory and directory in each.parents]
    return os.path.lexists(path) or any(os.path.lexists(each) and not each.is_dir() for each in above)


def _write(directory: Path, files: dict[str, str]) -> None:
    """Write all files or none; raise OSError if one cannot be written."""
    made: list[Path] = []
    try:
        for name, text in files.items():
            path = directory / name
            for folder in reversed([path.parent, *path.parent.parents]):
                if not folder.exists():
                    folder.mkdir()
                    made.append(folder)
            with path.open("x", encoding="utf-8") as file:  # another `init` may be running
                made.append(path)
                file.write(text)
    except BaseException:
        for path in reversed(made):
            path.rmdir() if path.is_dir() else path.unlink()
        raise


def _next(directory: Path) -> list[str]:
    here = directory.resolve() == Path.cwd()
    return [
        "Next, here:" if here else f"Next, after cd {shlex.quote(str(directory))}:",
        "  pytest -m smtp --ipver=6    # compare SMTP over IPv6 with IPv4, in a few minutes",
        "  pytest-ipperf docs          # list the pages of the documentation",
    ]


command = Command(
    help="write suites, an inventory, pytest's settings and a CI recipe into a directory",
    description=(
        "Writes the studies' suites, a commented inventory, pytest's settings and a CI recipe into a directory. Writes "
        "nothing if one of these files, or another file with settings of pytest, exists there."
    ),
    arguments=_arguments,
    run=_run,
)
