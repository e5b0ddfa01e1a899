"""Flows: TCP and UDP traffic and round-trip probes between two agents."""
