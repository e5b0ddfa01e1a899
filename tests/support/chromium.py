"""Drive a headless Chromium through two pipes: https://chromedevtools.github.io/devtools-protocol/"""

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import time

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), "")
MISSING = "no Chromium here (Debian: apt-get install chromium)"
PATIENCE_S = 60


class Browser:
    """A Chromium with one tab; `received` holds its events since the last page was opened.

    `arguments` are added to its command line. Close it, or use it as a context manager.
    """

    def __init__(self, profile, *arguments):
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        self._rest, self._count, self.received = b"", 0, list[dict]()
        options = ["--headless=new", "--remote-debugging-pipe", "--disable-gpu", "--disable-background-networking"]
        options += [f"--user-data-dir={profile}", "--no-first-run", *["--no-sandbox"] * (os.geteuid() == 0)]
        options += arguments
        # It reads from descriptor 3 and writes to 4.
        redirect = f'exec "$@" 3<&{to_read} 4>&{to_write}'
        self._process = subprocess.Popen(
            ["bash", "-c", redirect, "bash", CHROMIUM, *options, "about:blank"], pass_fds=(to_read, to_write),
            start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        self._session = ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def call(self, method, **parameters):
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE_S
        while True:
            shown = self._next(deadline)
            if shown.get("id") == self._count:
                assert "error" not in shown, (method, shown)
                return shown["result"]
            self.received.append(shown)

    def _next(self, deadline):
        while b"\0" not in self._rest:
            left = max(0.0, deadline - time.monotonic())
            assert select.select([self._read], [], [], left)[0], "Chromium does not answer"
            data = os.read(self._read, 1 << 20)
            assert data, "Chromium has ended"
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\0")
        return json.loads(line)

    def open(self, url, *, width=1280, scheme="light"):
        mobile = width < 600
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=mobile)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url="about:blank")
        self.received.clear()
        # The blank page may report late that it has loaded: only events of this document count.
        here = self.call("Page.navigate", url=url)["loaderId"]
        deadline = time.monotonic() + PATIENCE_S
        while not self._loaded(here):
            self.received.append(self._next(deadline))
        # Include what begins shortly after the page has loaded.
        self.evaluate("new Promise(done => setTimeout(done, 200))")

    def _loaded(self, loader):
        return any((each["loaderId"], each["name"]) == (loader, "load") for each in self.events("Page.lifecycleEvent"))

    def evaluate(self, expression):
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait_for(self, expression):
        """Wait until an expression of the page is true; raise AssertionError, which names it, if it stays false."""
        deadline = time.monotonic() + PATIENCE_S
        while not self.evaluate(expression):
            if time.monotonic() >= deadline:
                shown = self.evaluate("document.body.innerText")
                raise AssertionError(f"{expression} is false after {PATIENCE_S} s: {self.complaints} {shown}")
            time.sleep(0.1)

    def events(self, method):
        return [each["params"] for each in self.received if each.get("method") == method]

    @property
    def requests(self):
        return [each["request"]["url"] for each in self.events("Network.requestWillBeSent")]

    @property
    def complaints(self):
        logged = [each["entry"]["text"] for each in self.events("Log.entryAdded")]
        thrown = [each["exceptionDetails"]["text"] for each in self.events("Runtime.exceptionThrown")]
        return logged + thrown + [each["type"] for each in self.events("Runtime.consoleAPICalled")]

    def close(self):
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._read)
        os.close(self._write)
