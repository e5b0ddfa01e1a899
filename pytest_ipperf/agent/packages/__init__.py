"""Packages of a host: installed ones, the cache of sent ones, and byte-code."""
