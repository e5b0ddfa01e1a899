"""The event log of a session: its lines, their checksums, their validation and their migration."""
