"""Settings of the projects that an inner pytest runs, in the table that pytest 8 and 9 both read."""

# All that `strict = true` of pytest 9 means, as far as pytest 8 knows it too.
STRICT = """\
[tool.pytest.ini_options]
addopts = ["--strict-config", "--strict-markers"]
xfail_strict = true
"""
