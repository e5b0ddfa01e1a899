"""Runs: their specifications for the agents, and the results."""
