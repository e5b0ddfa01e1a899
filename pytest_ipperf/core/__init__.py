"""The bottom layer: values and arithmetic.

Rule 1: no I/O, no clock, no randomness of its own; time and seeds are arguments.
Rule 2: base units inside (s, bit/s, bytes), the unit in the name; scaling only where text is made.
Rule 3: `portable/` travels to hosts, and needs the standard library alone.
"""
