"""Find the items that the command line names by whole node ids, such as `test_mail.py::test_smtp[lab-smtp-...]`."""

from __future__ import annotations

import pytest


def named_ids(node: pytest.Item) -> list[str]:
    """Return the bracketed parts of the command line's node ids that name this test or test function."""
    name = f"::{node.name.partition('[')[0]}["
    found = []
    for argument in node.config.args:
        path, inside, rest = argument.partition(name)
        if inside and (node.config.invocation_params.dir / path.partition("::")[0]).resolve() == node.path.resolve():
            found.append(rest.removesuffix("]"))
    return found
