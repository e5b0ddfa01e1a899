"""Runs: what is sent to the agents for one, and what comes back."""
