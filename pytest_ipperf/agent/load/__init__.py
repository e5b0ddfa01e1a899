"""Load: the connections of a run, opened by worker processes, and their samples."""
