"""Tunnel devices and the backends that make them."""
