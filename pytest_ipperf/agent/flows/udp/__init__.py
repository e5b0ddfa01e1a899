"""The two ends of a UDP flow."""
