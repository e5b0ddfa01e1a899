"""Interfaces of the kernel: netlink, ethtool, qdiscs, counters, timers."""
