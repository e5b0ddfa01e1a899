"""Traffic models: sizes and instants of packets as distributions, and the schedules that follow from a seed."""
