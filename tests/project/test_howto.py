"""The recipes of docs/howto are complete: each is followed word by word in a copy of the package, and measured."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from pytest_ipperf.core.portable.registry import Registry
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.lab.inventory.builtin import BUILTIN
from pytest_ipperf.lab.inventory.model import AUTO
from pytest_ipperf.lab.tunnels.backend_choice import lab_backend
from pytest_ipperf.plugin.measure.outcome import NOTHING_DECIDED
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.servers.base import Site
from tests.project.doc_tables import REGISTRIES
from tests.support.needs import PATH
from tests.support.sessions.forked_python import run_python
from tests.support.sessions.project_settings import ONE_EPOCH

TOP = Path(__file__).parents[2]
RECIPES = sorted((TOP / "docs" / "howto").glob("*.md"))
BLOCK = re.compile(r"(?:`([\w/]+\.(?:py|ini|toml))`:\n\n)?^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SHOWN = {
    "access-method": "[boxes-dns-c2-34-ipv6]",
    "flow": "Handshake: round-trip time",
    "metric": "HTTP time to the first byte",
    "protocol": "server echod Python ",
    "report-format": "loopback-dns-c2-34-ipv6 response_time: ",
    "server": "server lighttpd ",
    "traffic-model": "c5-512-meter",
    "transport": "IPv6 narrow",
}
"""By recipe what its last command prints, which nothing prints without it."""


def laid(tmp_path, recipe):
    """Lay the recipe's files where it says, beside a copy of the package; return its commands."""
    # With its bytecode, as compiling all of it takes longer than a command; Python writes it by way of other names.
    shutil.copytree(TOP / "pytest_ipperf", tmp_path / "pytest_ipperf", ignore=shutil.ignore_patterns("*.pyc.*"))
    commands = []
    for name, language, text in BLOCK.findall(recipe.read_text(encoding="utf-8")):
        place = tmp_path / ("pytest_ipperf" if "/" in name else "") / name
        if language == "sh":
            commands += text.splitlines()
        elif language == "diff":
            context, added = text.splitlines()
            before = place.read_text(encoding="utf-8")
            assert before.count(f"\n{context[1:]}\n") == 1
            assert (context[0], added[0]) == (" ", "+")
            place.write_text(before.replace(f"{context[1:]}\n", f"{context[1:]}\n{added[1:]}\n"), encoding="utf-8")
        else:
            assert name, text
            assert not place.exists(), place
            place.write_text(text, encoding="utf-8")
    return commands


def followed(tmp_path, command):
    """Run a command of a recipe with the copy; return what it prints."""
    program, *arguments = shlex.split(command)
    started = {"pytest": "import pytest; raise SystemExit(pytest.main())",
               "pytest-ipperf": "from pytest_ipperf.cli import main; raise SystemExit(main())"}  # fmt: skip
    done = run_python(
        ["-c", started[program], *arguments], copy_of_package=True,
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert done.returncode in {0, NOTHING_DECIDED}, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_is_all_that_it_takes(recipe, tmp_path):
    if recipe.stem == "transport" and (why := lab_backend(BUILTIN["pair"], AUTO)[1]):
        pytest.skip(why)
    commands = laid(tmp_path, recipe)
    assert commands
    (tmp_path / "conftest.py").write_text(ONE_EPOCH)
    if recipe.stem == "server" and not shutil.which("lighttpd", path=PATH):
        followed(tmp_path, f"{commands[-1]} --collect-only")
        pytest.skip("lighttpd is not installed (Debian: apt-get install lighttpd)")
    for command in commands:
        said = followed(tmp_path, command)
    assert SHOWN[recipe.stem] in said


@pytest.fixture
def things(tmp_path, monkeypatch):
    """Protocols, servers and access methods of the recipes, each in a registry of its own, by the name of its file."""
    package = tmp_path / "added"
    package.mkdir()
    (package / "__init__.py").touch()
    recipes = "".join(path.read_text(encoding="utf-8") for path in RECIPES)
    found = re.findall(r"`([\w/]+/)(\w+)\.py`:\n\n```python\n(.*?)^```$", recipes, re.DOTALL | re.MULTILINE)
    added = [each for each in found if each[0] in {"protocols/", "servers/", "lab/access/"}]
    for _, name, code in added:
        (package / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    yield {name: Registry("added", [str(package)], REGISTRIES[folder].offers)[name] for folder, name, _ in added}
    for name in [name for name in sys.modules if name.split(".")[0] == "added"]:
        del sys.modules[name]


def test_the_recipes_of_howto_are_complete(things):
    assert set(things) >= {"daytime", "lighttpd", "docker"}

    daytime = things["daytime"]
    talk = daytime.conversation(daytime.filled(ServerState(), 26), 0, 4)
    assert (daytime.name, talk.first_bytes(), len(daytime.content(26))) == ("daytime", b"", 26)
    assert (talk.receive_data(b"Sat Nov 21"), talk.finished) == (b"", False)
    assert (talk.receive_data(b" 10:52:31\r\n"), talk.finished) == (b"", True)

    server = things["lighttpd"]
    site = Site("/site", ("127.0.0.1", "::1"), 20000, 10, ServerState(b"page"))
    written = {entry.path: entry.content for entry in server.entries(site)}
    assert written["htdocs/index.html"] == b"page"
    assert b'$SERVER["socket"] == "[::1]:20000" {}' in (written["conf"] or b"")
    assert server.argv(site)[-1] == "/site/conf"
    assert server.protocol in PROTOCOLS

    way = things["docker"]
    assert way.trouble({})
    assert not way.trouble({"container": "a"})
    assert way.spec({"container": "a"}, ())["python"] == "docker exec -i a python3 -I"
    assert way.machine({"container": "a"}) == "this machine"
