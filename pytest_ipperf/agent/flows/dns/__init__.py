"""Clients of a query load, for the engine `dns_load`."""
