"""Measurement: runs, their data, and the proof of their path."""
