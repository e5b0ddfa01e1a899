"""Ends of a TCP flow."""
