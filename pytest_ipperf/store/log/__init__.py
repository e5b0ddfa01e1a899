"""The event log of a session: its lines, their checksums, types and earlier versions."""
