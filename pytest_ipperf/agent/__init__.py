"""Agent: the process that runs on a host. It handles one call at a time and replies to it.

Rule 1: standard library only, Python 3.10: a bare host needs nothing else.
Rule 2: between a call and its reply nothing travels: control traffic would be part of the measurement.
Rule 3: when the channel to the controller closes, everything that it started goes with it.
"""
