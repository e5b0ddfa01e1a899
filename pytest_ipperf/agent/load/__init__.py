"""Load: the connections of a run, opened by worker processes, and what they measured."""
