"""Apache httpd 2.4: one page from threads of the event MPM, each connection closed after its answer."""

from __future__ import annotations

import contextlib
import math
import pwd
import re
from collections.abc import Sequence
from pathlib import Path

from pytest_ipperf.servers.base import Entry, Server, Site, program, tree, true_root, words

_MODULE_FOLDERS = ("/usr/lib/apache2/modules", "/usr/lib64/httpd/modules", "/usr/lib/httpd/modules")
# Some distributions compile some of these in.
_MODULES = ("mpm_event", "unixd", "authz_core", "mime", "dir")
_USERS = ("www-data", "apache", "http", "nobody")
_THREADS = 64
# More connections than threads wait in the backlog for about a millisecond; more threads only compete for the CPU.
_MOST_PROCESSES = 8

_CONFIGURATION = """\
ServerRoot "{folder}"
DefaultRuntimeDir "{folder}/run"
PidFile "{folder}/run/httpd.pid"
ScoreBoardFile "{folder}/run/scoreboard"
Mutex file:{folder}/run default
ErrorLog "{folder}/log"
LogLevel warn
{modules}
{identity}
ServerName www.ipperf.test
{listen}
ListenBacklog 8192
StartServers {processes}
ServerLimit {processes}
ThreadsPerChild {threads}
ThreadLimit {threads}
MaxRequestWorkers {workers}
MinSpareThreads {threads}
MaxSpareThreads {spare}
MaxConnectionsPerChild 0
AsyncRequestWorkerFactor 16
KeepAlive Off
Timeout 60
HostnameLookups Off
ServerTokens Prod
TypesConfig /dev/null
AddType text/html .html
DocumentRoot "{folder}/htdocs"
<Directory "{folder}/htdocs">
  Options None
  AllowOverride None
  Require all granted
</Directory>
"""


class Apache(Server):
    """Apache httpd, as root with children of the web server's user, or as any other user."""

    name = "apache"
    protocol = "http"
    embedded = False
    apt = "apache2-bin"
    probe = (b"GET /index.html HTTP/1.1\r\nHost: www.ipperf.test\r\nConnection: close\r\n\r\n", b"HTTP/1.1 200 ")

    def missing(self) -> str:
        if not program("apache2", "httpd"):
            return f"apache2 is not installed (Debian: apt-get install {self.apt})"
        if not _module_folder():
            return f"apache2 has no mod_mpm_event.so in {', '.join(_MODULE_FOLDERS)}"
        return ""

    def version(self) -> str:
        found = re.search(r"Apache/([\d.]+)", words(program("apache2", "httpd"), "-v"))
        return found[1] if found else "unknown"

    def entries(self, site: Site) -> Sequence[Entry]:
        return (
            Entry("run"),
            *tree("htdocs", {"/index.html": site.state.content, **site.state.pages}),
            Entry("httpd.conf", _configuration(site).encode(), 0o644),
        )

    def argv(self, site: Site) -> Sequence[str]:
        path = program("apache2", "httpd") or "apache2"
        return (path, "-d", site.folder, "-f", f"{site.folder}/httpd.conf", "-DFOREGROUND")


def _configuration(site: Site) -> str:
    processes = min(_MOST_PROCESSES, math.ceil((site.connections + 50) / _THREADS))
    modules = _module_folder()
    paths = {name: Path(modules, f"mod_{name}.so") for name in _MODULES}
    return _CONFIGURATION.format(
        folder=site.folder,
        modules="\n".join(f'LoadModule {name}_module "{path}"' for name, path in paths.items() if path.exists()),
        identity=_identity(),
        listen="\n".join(f"Listen {_bracketed(address)}:{site.port}" for address in site.addresses),
        processes=processes,
        threads=_THREADS,
        workers=processes * _THREADS,
        # With fewer, idle threads would be ended between two bursts.
        spare=(processes + 1) * _THREADS,
    )


def _module_folder() -> str:
    return next((folder for folder in _MODULE_FOLDERS if Path(folder, "mod_mpm_event.so").exists()), "")


def _identity() -> str:
    if not true_root():
        return ""
    for name in _USERS:
        with contextlib.suppress(KeyError):
            return f"User {name}\nGroup #{pwd.getpwnam(name).pw_gid}"
    return "User #65534\nGroup #65534"


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


server = Apache()
