"""Ends of a UDP flow."""
