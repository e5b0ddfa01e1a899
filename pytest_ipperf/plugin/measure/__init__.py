"""Measuring: the set-up of `measured`, verdicts and teardown."""
