"""The agent: what runs on a host. It takes one order and gives one answer.

Rule 1: standard library only, Python 3.10: a bare host needs nothing else.
Rule 2: between an order and its answer nothing travels: control traffic would be part of the measurement.
Rule 3: when the line to the controller breaks, everything that it started goes with it.
"""
