"""Settings of the projects of inner sessions, in the table that pytest 8 and 9 both read."""

# The parts of pytest 9's `strict = true` that pytest 8 knows too.
STRICT = """\
[tool.pytest.ini_options]
addopts = ["--strict-config", "--strict-markers"]
xfail_strict = true
"""

# A conftest.py for commands that name design smoke: a second epoch would start the same again, the agents, the servers
# and what there is between them.
ONE_EPOCH = """\
import dataclasses
from pytest_ipperf.core.design.design import DESIGNS

DESIGNS["smoke"] = dataclasses.replace(DESIGNS["smoke"], epochs=1)
"""

# A conftest.py: a design that measures one epoch, for tests that need a run of each arm and no second lab.
GLANCE = """\
import dataclasses
from pytest_ipperf.core.design.design import DESIGNS

DESIGNS["glance"] = dataclasses.replace(DESIGNS["smoke"], name="glance", epochs=1)
"""
