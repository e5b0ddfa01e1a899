"""The index over the event logs of all sessions, in SQLite."""
