"""Sockets: batches, timestamps, options, filters and ports."""
