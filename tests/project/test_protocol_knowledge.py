"""What is known of a single protocol stands in its own file, so that a new one needs no other."""

import ast
from pathlib import Path

from pytest_ipperf.protocols import PROTOCOLS

PACKAGE = Path(__file__).parents[2] / "pytest_ipperf"
OWN = ("protocols/", "servers/", "agent/flows/")
PHASE, KERNEL, STUDY = "a phase of a connection", "a protocol of the kernel", "a study's own measurements"
OTHER_MEANINGS = {
    ("agent/facts/ports.py", "tcp"): KERNEL,
    ("agent/facts/ports.py", "udp"): KERNEL,
    ("agent/load/lean/connection.py", "dns"): PHASE,
    ("agent/load/library_client.py", "dns"): PHASE,
    ("agent/paths/reachability.py", "tcp"): KERNEL,
    ("agent/paths/reachability.py", "udp"): KERNEL,
    ("core/portable/traffic/carrier.py", "tcp"): KERNEL,
    ("core/portable/traffic/carrier.py", "udp"): KERNEL,
    ("lab/doctor/reachability.py", "tcp"): KERNEL,
    ("lab/doctor/reachability.py", "udp"): KERNEL,
    ("lab/runs/proof.py", "tcp"): KERNEL,
    ("lab/runs/proof.py", "traffic"): "a key of the proof",
    ("metrics/rtt.py", "rtt"): "a metric's own name",
    ("report/page/tables/tables.py", "dns"): PHASE,
    **dict.fromkeys(
        [("report/studies/response_time/printed.py", name) for name in ("ftp", "http", "imap", "smtp")], STUDY
    ),
    **dict.fromkeys([("report/studies/router/experiments.py", name) for name in ("rtt", "tcp", "udp")], STUDY),
    ("report/studies/router/printed.py", "rtt"): STUDY,
    ("report/page/document.py", "traffic"): "a part of the page",
    **dict.fromkeys(
        [
            ("report/studies/traffic/experiments.py", name)
            for name in ("dns_load", "game", "tcp", "traffic", "udp", "voip")
        ],
        STUDY,
    ),
    ("report/tables/columns.py", "dns"): PHASE,
    ("store/log/records.py", "dns"): PHASE,
}  # fmt: skip
"""By module and word: what the word means there, which is not the workload of that name."""


def words_of(path):
    """The texts of a module's source, each whole."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def test_no_module_beside_its_own_names_a_protocol():
    modules = {path.relative_to(PACKAGE).as_posix(): path for path in PACKAGE.rglob("*.py")}
    found = {
        (module, name)
        for module, path in modules.items()
        if not module.startswith(OWN)
        for name in words_of(path) & set(PROTOCOLS)
    }
    assert found == set(OTHER_MEANINGS)
