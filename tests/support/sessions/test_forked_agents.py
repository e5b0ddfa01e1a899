"""A forked agent finds what it would find as a new process."""

import sys

import execnet
import pytest
from execnet.gateway_bootstrap import bootstrap

from pytest_ipperf.lab.access.base import quoted
from pytest_ipperf.lab.access.local import PYTHON
from pytest_ipperf.lab.agents.client import AgentClient
from pytest_ipperf.lab.agents.code_archive import code_file
from pytest_ipperf.lab.inventory.builtin import BUILTIN
from pytest_ipperf.lab.netns.namespaces import namespaces, unusable
from tests.support.hosts.agents import NEW_AGENTS
from tests.support.sessions import forked_agents

SAYS = """
import gc, os, signal, socket, sys, tempfile, threading, time
handlers = {int(number): str(signal.getsignal(number)) for number in signal.valid_signals()}
descriptors = [f"/proc/self/fd/{each}" for each in os.listdir("/proc/self/fd")]
kinds = [os.readlink(each).split(":")[0] for each in descriptors if os.path.exists(each)]
channel.send({
    "modules": sorted({name.split(".")[0] for name in sys.modules} - sys.stdlib_module_names - {"_distutils_hack"}),
    "path": sys.path, "argv": sys.argv, "environment": dict(os.environ), "folder": os.getcwd(),
    "temporary": tempfile.gettempdir(), "host": socket.gethostname(), "handlers": handlers,
    "blocked": sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, []))), "threads": threading.active_count(),
    "main": threading.current_thread() is threading.main_thread(), "pipes": kinds.count("pipe"),
    "sockets": kinds.count("socket"),
    "processors": sorted(os.sched_getaffinity(0)), "garbage": [gc.isenabled(), *gc.get_threshold()],
    "hooks": sys.excepthook.__name__,
    "namespaces": {kind: os.readlink(f"/proc/self/ns/{kind}") for kind in ("mnt", "net", "pid", "uts")},
    "streams": [each.fileno() for each in (sys.stdin, sys.stdout, sys.stderr)], "group": os.getpgid(0) != os.getpid(),
})
"""


# Python's C code and GNU readline set these where os.environ does not show them.
HIDDEN = {"COLUMNS", "LC_CTYPE", "LINES"}


def reported(make, entry=()):
    group = execnet.Group()
    spec = execnet.XSpec("execmodel=thread")
    spec.popen, spec.python, spec.id = True, quoted([*entry, *PYTHON]), "any"
    gateway = bootstrap(make(spec, group.execmodel), spec)
    group._register(gateway)
    try:
        return gateway.remote_exec(SAYS).receive(60)
    finally:
        group.terminate(60)
        assert gateway._io.wait() == 0


def difference(entry=()):
    forked, new = (reported(make, entry) for make in (forked_agents.create_io, forked_agents._new_agent))
    forked |= forked.pop("environment")
    new |= new.pop("environment")
    return {
        key: (forked.get(key), new.get(key))
        for key in forked | new
        if key not in HIDDEN and forked.get(key) != new.get(key)
    }


@pytest.mark.parametrize("where", ["here", "lab"])
def test_it_is_as_a_new_one(monkeypatch, where):
    monkeypatch.setenv("PYTHONPATH", "/any:/other")
    if where == "here":
        assert difference() == {}
        return
    if why := unusable():
        pytest.skip(why)
    with namespaces(BUILTIN["lab"]) as entries:
        entry = entries["server"]
        if forked_agents._way_in(entry) is None:
            pytest.skip("a user's labs are entered by new processes only")
        assert difference(entry) == {}


@pytest.mark.parametrize(("new", "kind"), [("", forked_agents._Fork), ("yes", object)])
def test_an_agent_is_a_fork_unless_it_has_to_be_new(monkeypatch, new, kind):
    forked_agents.install()
    monkeypatch.setenv(NEW_AGENTS, new)
    with AgentClient(BUILTIN["loopback"].client) as agent:
        assert isinstance(agent._process, kind)
        assert isinstance(agent._process, forked_agents._Fork) is (not new)
        assert agent.fingerprint("127.0.0.1").cpus


@pytest.mark.parametrize("words", ["a-wrapper", "nsenter", "nsenter --target 1 --user", "nsenter --target 1 --net env"])
def test_an_unknown_way_to_a_host_takes_a_new_process(words):
    assert forked_agents._way_in(words.split()) is None


@pytest.mark.parametrize("descriptor", [forked_agents._archive_fd, code_file], ids=["an agent", "a fork server"])
def test_the_archive_of_each_is_known_and_not_read_again(monkeypatch, descriptor):
    monkeypatch.setattr(sys, "path", [f"/proc/self/fd/{descriptor()}"])
    spec = forked_agents._FromArchive().find_spec("pytest_ipperf")
    assert spec
    assert isinstance(spec.loader, forked_agents._FromArchive)


def test_another_archive_is_read(monkeypatch, tmp_path):
    with (tmp_path / "other.zip").open("w") as other:
        monkeypatch.setattr(sys, "path", [f"/proc/self/fd/{other.fileno()}"])
        assert forked_agents._FromArchive().find_spec("pytest_ipperf") is None
