"""make report: the page of Allure 3 as a browser shows it, and that the page contacts nobody."""

import base64
import contextlib
import json
import os
import shutil
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from tests.support.chromium import CHROMIUM, MISSING, Browser

TOP = Path(__file__).parents[3]
BUILD = TOP / ".ci" / "allure"
_REPORT_S = 300
_ITS_OWN = {
    "accounts.google.com", "clients2.google.com", "content-autofill.googleapis.com",
    "optimizationguide-pa.googleapis.com", "update.googleapis.com",
}  # fmt: skip
"""Hosts that Chromium contacts by itself, for the time and for updates; no other hosts of Google."""
_QUIET = ("--disable-component-update", "--disable-default-apps", "--disable-sync", "--disable-domain-reliability")
SHOWN = ("Response time", "SMTP", "IPv6", "GitHub Actions", "night #5", "Categories")


def report(folder, env=None, build=BUILD):
    done = subprocess.run(
        ["sh", build / "report", folder],
        capture_output=True, text=True, check=False, env={**os.environ, **(env or {})}, timeout=_REPORT_S,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def result(name, status="passed", message="", **more):
    """Return a result as the plugin writes it."""
    labels = {"epic": "Response time", "feature": "SMTP", "story": "IPv6", "host": "secret-host"}
    result = {
        "uuid": f"uuid-{name}-{more.get('stop', 2)}", "name": name, "status": status, "historyId": name,
        "testCaseId": name, "fullName": "suites#test_mail", "start": 1, "stop": 2,
        "labels": [{"name": key, "value": value} for key, value in labels.items()],
        "descriptionHtml": f"<p><b>Answer of {name}.</b></p><table><tr><td>12.3 ms</td></tr></table>",
    }  # fmt: skip
    return result | ({"statusDetails": {"message": message}} if message else {}) | more


def write(folder, *results):
    """Write a folder of results with the files beside them, replacing an existing one."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    rules = [{"name": "Regression", "matchedStatuses": ["failed"], "messageRegex": "regression: .*"}]
    (folder / "categories.json").write_text(json.dumps(rules))
    executor = {"name": "GitHub Actions", "type": "github", "buildName": "night #5", "buildUrl": "https://git.test/5"}
    (folder / "executor.json").write_text(json.dumps(executor))
    for number, each in enumerate(results):
        (folder / f"{number}-result.json").write_text(json.dumps(each))
    return folder


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A page, built once; a test that builds another from the same folder takes a copy."""
    if not shutil.which("node") or not shutil.which("npm"):
        pytest.skip("Node.js and npm are not installed (Debian: apt-get install nodejs npm)")
    folder = tmp_path_factory.mktemp("page") / "allure"
    status, said = report(write(folder, result("one"), result("two", "failed", "regression: slower by 7 %")))
    if "is a registry reachable" in said:
        pytest.skip("npm's registry is out of reach")
    assert status == 0, said
    assert said.splitlines()[-1] == f"report: {folder}.html"
    return folder.with_name("allure.html")


@contextlib.contextmanager
def proxy():
    """Yield the port of a proxy that answers nothing, and the hosts asked for, complete when the context is left."""
    asked: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        threading.Thread(target=_note, args=(listener, asked), daemon=True).start()
        yield port, asked
        # Calls are recorded in order, so all earlier ones are recorded by now, and the recorder still runs.
        call(port, b"CONNECT last.test:443 HTTP/1.1\r\n\r\n")
        assert asked.pop() == "last.test"


def call(port, said):
    """Call a proxy and wait until it hangs up; raise TimeoutError if it does not."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(said)
        assert not connection.recv(1)


def _note(listener, asked):
    with contextlib.suppress(OSError):
        while True:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                connection.settimeout(5)
                # A browser also opens connections in advance, and closes them unused.
                if request := connection.recv(4096).decode("ascii", "replace"):
                    target = (request.split() * 2)[1]
                    asked.append(target.removeprefix("http://").partition("/")[0].partition(":")[0])


@pytest.fixture
def shown(tmp_path):
    """A function that opens a page until it shows all of SHOWN, and returns its HTML and the hosts that were contacted.

    All its calls go to a proxy.
    """
    if not CHROMIUM:
        pytest.skip(MISSING)

    def show(address):
        with proxy() as (port, asked):
            own = f"--proxy-server=http://127.0.0.1:{port}"
            with Browser(tmp_path / "profile", own, *_QUIET) as browser:
                browser.open(address)
                browser.wait_for(f"{json.dumps(SHOWN)}.every(each => document.body.outerHTML.includes(each))")
                html = browser.evaluate("document.documentElement.outerHTML")
        return html, set(asked) - _ITS_OWN

    return show


def test_a_call_that_says_nothing_ends_no_noting():
    with proxy() as (port, asked):
        socket.create_connection(("127.0.0.1", port)).close()
        call(port, b"GET http://late.test/x HTTP/1.1\r\n\r\n")
    assert asked == ["late.test"]


def test_the_page_shows_the_answers_and_calls_on_nobody(page, shown):
    html, asked = shown(page.as_uri())
    assert not asked
    assert [text for text in SHOWN if text in html] == [*SHOWN]
    assert "secret-host" not in html


def test_a_call_would_be_noticed_and_the_page_forbids_it(page, shown, tmp_path):
    text = page.read_text()
    hosts = {"tracker.test", "fonts.googleapis.com", "www.google.com"}
    pixels = "".join(f"<img src='http://{host}/pixel'>" for host in sorted(hosts))
    leak = text.replace("<body>", f"<body>{pixels}")
    assert leak != text
    open_to_all = leak.replace("Content-Security-Policy", "X-Nothing")
    assert open_to_all != leak
    file = tmp_path / "leak.html"
    for page_text, calls in ((open_to_all, hosts), (leak, set())):
        file.write_text(page_text)
        assert shown(file.as_uri())[1] == calls


def fetched(text, tmp_path):
    """Return the addresses that build.mjs finds."""
    file = tmp_path / "asked.html"
    file.write_text(text)
    code = f"""
        import {{ fetched, offline }} from {json.dumps((BUILD / "build.mjs").as_uri())};
        import {{ readFileSync }} from "node:fs";
        const text = readFileSync(process.argv[1], "utf8");
        console.log(JSON.stringify([fetched(text), text.includes("charset") ? fetched(offline(text)) : null]));
    """
    done = subprocess.run(["node", "--input-type=module", "-e", code, file], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.skipif(not shutil.which("node"), reason="Node.js is not installed (Debian: apt-get install nodejs)")
def test_every_address_that_something_could_fetch_is_found(tmp_path):
    program = base64.b64encode(b'new Image().src = "https://g.test/"').decode()
    leaks = {
        '<img src="http://a.test/x.png">': "http://a.test/x.png",
        "<LINK rel=icon href=//b.test/y>": "//b.test/y",
        '<style>@import "https://c.test/z";</style>': "https://c.test",
        "<style>a { background: url(//d.test/q) }</style>": "//d.test",
        '<script>fetch("//e.test/1")</script>': "//e.test",
        '<img srcset="a.png 1x, https://f.test/2 2x">': "https://f.test",
        f'<script src="data:text/javascript;base64,{program}"></script>': "https://g.test",
        "<p style='background:url(https://h.test/)'>": "https://h.test",
    }
    for text, address in leaks.items():
        assert fetched(text, tmp_path)[0] == [address], text
    harmless = (
        '<a href="https://a.test">a link</a><svg xmlns="http://www.w3.org/2000/svg"/>'
        '<script>window.allureReportOptions = {"executor": {"url": "https://git.test/5"}}</script>'
    )
    assert fetched(harmless, tmp_path)[0] == []
    tracker = (
        '<meta charset="utf-8"><script async src="https://www.googletagmanager.com/gtag/js?id=G-1"></script>\n'
        "<script>window.dataLayer = []; function gtag(){dataLayer.push(arguments);}</script>"
    )
    assert fetched(tracker, tmp_path) == [["https://www.googletagmanager.com/gtag/js?id=G-1"], []]


def test_a_page_made_twice_counts_once_and_a_second_session_has_the_history_of_the_first(page, tmp_path):
    shutil.copytree(page.parent, tmp_path, dirs_exist_ok=True)
    folder, history = tmp_path / "allure", tmp_path / "allure.history.jsonl"
    assert len(history.read_text().splitlines()) == 1
    assert report(folder)[0] == 0
    assert len(history.read_text().splitlines()) == 1
    write(folder, result("one", "failed", "regression: slower", start=3, stop=4))
    assert report(folder)[0] == 0
    first, second = (json.loads(line)["testResults"] for line in history.read_text().splitlines())
    ((identity, failed),) = second.items()
    assert failed["status"] == "failed"
    assert first[identity]["status"] == "passed"
    assert len(first) == 2


# --- missing parts are reported ---------------------------------------------------------------------------------------


def programs(folder, **own):
    """Make a folder with the programs that a report needs; those named are scripts with these lines, or missing."""
    made = folder / "bin"
    made.mkdir()
    for name in ("sh", "dirname", "sed", "cmp", "echo", "tail"):
        (made / name).symlink_to(shutil.which(name) or "/bin/true")
    for name, lines in own.items():
        if lines:
            (made / name).write_text(f"#!/bin/sh\n{lines}\n")
            (made / name).chmod(0o755)
    return made


def test_without_results_it_says_how_to_get_some(tmp_path):
    status, said = report(tmp_path / "none")
    assert status == 2
    none = tmp_path / "none"
    assert said == f"make report: there is no folder {none}; pytest --alluredir={none} creates it (docs/allure.md)\n"


@pytest.mark.parametrize(
    ("node", "said"),
    [
        ("", "there is no Node.js here (Debian: apt-get install nodejs npm)"),
        ("echo v16.20.2", "Node.js 16 is too old; 18 or newer is needed"),
        ("exit 1", "Node.js that does not run is too old; 18 or newer is needed"),
    ],
)
def test_what_node_lacks_is_said_and_results_stay(tmp_path, node, said):
    folder = write(tmp_path / "allure", result("one"))
    status, output = report(folder, {"PATH": str(programs(tmp_path, node=node))})
    assert status == 2
    assert output == (
        f"make report: {said}; the results in {folder} are unchanged, and any Allure 2 or 3 can read them\n"
    )
    assert (folder / "0-result.json").exists()


def test_a_registry_that_is_out_of_reach_is_not_waited_for_long_and_said(tmp_path):
    folder, build = write(tmp_path / "allure", result("one")), tmp_path / "build"
    build.mkdir()
    for name in ("report", "package-lock.json"):
        shutil.copy(BUILD / name, build)
    npm = f'echo "$@" >{tmp_path / "asked"}; echo no way; exit 1'
    status, output = report(folder, {"PATH": str(programs(tmp_path, node="echo v20.1.0", npm=npm))}, build)
    assert status == 2
    assert output == (
        "fetching Allure 3 (about 53 MB, once)\nno way\nmake report: npm could not fetch Allure; is a registry "
        f"reachable?; the results in {folder} are unchanged, and any Allure 2 or 3 can read them\n"
    )
    asked = (tmp_path / "asked").read_text().split()
    assert {"ci", "--ignore-scripts", "--fetch-timeout=20000", "--fetch-retries=1"} <= set(asked)


def test_the_lock_file_has_a_digest_of_every_package_and_names_no_host_to_load_from():
    text = (BUILD / "package-lock.json").read_text(encoding="utf-8")
    assert "://" not in text
    lock = json.loads(text)
    packages = {name: package for name, package in lock["packages"].items() if name}
    assert len(packages) > 100
    assert all(package["integrity"].startswith("sha512-") for package in packages.values())
    asked = json.loads((BUILD / "package.json").read_text())["devDependencies"]
    assert asked == {"allure": lock["packages"]["node_modules/allure"]["version"]}
