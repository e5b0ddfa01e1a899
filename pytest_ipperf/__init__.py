"""Distributed network measurements as pytest tests: IPv4 against IPv6, native or tunnelled."""

__version__ = "0.1.0"
