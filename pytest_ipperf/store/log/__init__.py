"""The event log of a session: its lines, their seals, types and earlier versions."""
