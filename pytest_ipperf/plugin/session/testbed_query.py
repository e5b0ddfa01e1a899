"""Answer `--ipperf-testbeds`: write the testbeds on which a session would measure.

Only pytest can tell, as they depend on its ini file, the project's conftests and the environment.
"""

from __future__ import annotations

import json

import pytest

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.plugin.options.aliases import spell_options
from pytest_ipperf.plugin.options.settings import inventory_path, read_settings
from pytest_ipperf.plugin.session.session import default_testbed


def answer_testbeds(config: pytest.Config) -> pytest.ExitCode | None:
    """Write the names of the testbeds and the path of the inventory; return None if the option is not given.

    The path is empty if the session would have only the built-in testbeds.
    """
    asked = config.getoption("--ipperf-testbeds")
    if not asked:
        return None
    try:
        settings = read_settings(config, seed=0)
    except UsageError as error:
        raise pytest.UsageError(spell_options(config, str(error))) from None
    path = inventory_path(config)
    used = path.exists() and not settings.inventory_trouble
    answer = {"testbeds": settings.testbeds or (default_testbed(),), "inventory": str(path) if used else ""}
    (config.invocation_params.dir / asked).write_text(json.dumps(answer), encoding="utf-8")
    return pytest.ExitCode.OK
