"""Tunnels: the choice of a backend, and their set-up by the agents."""
