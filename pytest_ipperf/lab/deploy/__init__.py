"""Sending: what travels to a host, the code of its agent and packages for its Python, and how it gets there."""
