"""The nightly gate: its decision, history and report."""
