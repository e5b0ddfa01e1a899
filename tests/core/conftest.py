"""Golden files for the sentences of this room."""

from tests.support.golden import golden  # noqa: F401 - a fixture
