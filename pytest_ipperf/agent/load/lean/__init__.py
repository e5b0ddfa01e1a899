"""Lean client: sans-I/O conversations driven by an epoll loop."""
