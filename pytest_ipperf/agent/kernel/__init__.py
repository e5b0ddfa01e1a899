"""The kernel's interfaces: netlink, ethtool, qdiscs, counters, timers."""
