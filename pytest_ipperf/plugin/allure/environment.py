"""Write the files beside Allure's results: environment, executor and categories."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from pytest_ipperf import __version__
from pytest_ipperf.agent.tunnels.backends import BACKENDS
from pytest_ipperf.core.design.cell import client_text
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.plugin.allure.statuses import categories
from pytest_ipperf.plugin.measure.outcome import VERDICTS
from pytest_ipperf.plugin.session.session import Session
from pytest_ipperf.plugin.session.session_end import SESSION_END
from pytest_ipperf.plugin.session.stash import SESSION
from pytest_ipperf.report.tables.cautions import multiplicity


class EnvironmentFiles:
    """Plugin of the main process that writes the files."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_sessionfinish(self) -> None:
        """Write the files if anything was measured."""
        verdicts, session = self._config.stash[VERDICTS], self._config.stash[SESSION]
        if not verdicts.measurements:
            return
        folder = self._config.invocation_params.dir / self._config.getoption("allure_report_dir")
        texts = {
            "environment.properties": properties(environment_of(session, verdicts.records)),
            "executor.json": _json(executor_of(os.environ, session.folder.name)),
            "categories.json": _json(categories()),
        }
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name, text in texts.items():
                (folder / name).write_text(text, encoding="utf-8")
        except OSError as error:
            trouble = f"allure: {folder} cannot be written ({error.strerror})"
            self._config.stash[SESSION_END].troubles.append(trouble)


def environment_of(session: Session, records: Iterable[Record]) -> dict[str, str]:
    """Return the conditions of the session's measurements, by name."""
    all_records, settings = list(records), session.settings
    backends = (name for record in all_records for name in record.backends)
    tunnels = [BACKENDS[name].title if name in BACKENDS else "the hosts' own devices" for name in sorted({*backends})]
    facts = {
        "Testbed": _once(record.testbed for record in all_records) or ", ".join(each.name for each in session.testbeds),
        "Tunnels": ", ".join(dict.fromkeys(tunnels)),
        "Server": _once(record.server for record in all_records),
        "Client": client_text(settings.client, settings.rate_per_s, settings.workers),
        "Design": settings.design.name,
        "Reference": settings.reference.title,
        "Seed": str(settings.seed),
        "Verdicts": "" if settings.flags or session.confirms else multiplicity(all_records),
        "Session": session.folder.name,
        "Kernel": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        "pytest": pytest.__version__,
        "pytest-ipperf": __version__,
    }
    return {name: text for name, text in facts.items() if text}


def executor_of(environ: Mapping[str, str], session: str) -> dict[str, str | int]:
    """Return the executor of the tests, from the variables of GitHub Actions, GitLab CI or Jenkins, else local."""
    get = environ.get
    if get("GITHUB_ACTIONS") == "true":
        home = f"{get('GITHUB_SERVER_URL', '')}/{get('GITHUB_REPOSITORY', '')}"
        number, build = get("GITHUB_RUN_NUMBER", ""), get("GITHUB_WORKFLOW", "")
        job = f"{home}/actions/runs/{get('GITHUB_RUN_ID', '')}"
        executor = {"name": "GitHub Actions", "type": "github", "url": home, "buildUrl": job}
    elif get("GITLAB_CI") == "true":
        number, build = get("CI_PIPELINE_IID", ""), get("CI_JOB_NAME", "")
        executor = {
            "name": "GitLab CI",
            "type": "gitlab",
            "url": get("CI_PROJECT_URL", ""),
            "buildUrl": get("CI_JOB_URL", ""),
        }
    elif get("JENKINS_URL"):
        number, build = get("BUILD_NUMBER", ""), get("JOB_NAME", "")
        executor = {
            "name": "Jenkins",
            "type": "jenkins",
            "url": get("JENKINS_URL", ""),
            "buildUrl": get("BUILD_URL", ""),
        }
    else:
        return {"name": "local", "type": "local", "buildName": session}
    build_order = {"buildOrder": int(number)} if number.isdecimal() else {}
    return {**{key: text for key, text in executor.items() if text}, **build_order, "buildName": f"{build} #{number}"}


def properties(facts: Mapping[str, str]) -> str:
    """Return `facts` in the format of Java's Properties: ASCII with escapes; a lone surrogate becomes `?`."""
    return "".join(f"{_escaped(name, ' =:#!')}={_escaped(text, '')}\n" for name, text in facts.items())


def _escaped(text: str, signs: str) -> str:
    plain = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    plain = "".join(f"\\{sign}" if sign in signs else sign for sign in plain)
    units = plain.encode("utf-16-be", "replace")
    pairs = (int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
    return "".join(chr(unit) if unit < 0x80 else f"\\u{unit:04x}" for unit in pairs)


def _once(texts: Iterable[str]) -> str:
    return ", ".join(sorted({text for text in texts if text}))


def _json(value: Any) -> str:
    return json.dumps(value, indent=2) + "\n"
