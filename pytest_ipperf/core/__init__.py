"""The bottom layer: values and arithmetic.

Rule 1: no I/O, no clock, no hidden randomness; times and seeds are arguments.
Rule 2: base units inside (s, bit/s, bytes), with the unit in the name; values are scaled only for display.
Rule 3: `portable/` travels to hosts and needs only the standard library.
"""
