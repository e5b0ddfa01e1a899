"""Settings of the projects of inner sessions, in the table that pytest 8 and 9 both read."""

# The parts of pytest 9's `strict = true` that pytest 8 knows too.
STRICT = """\
[tool.pytest.ini_options]
addopts = ["--strict-config", "--strict-markers"]
xfail_strict = true
"""
