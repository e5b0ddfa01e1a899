"""The two ends of a TCP flow."""
