"""Agent: the process that runs on a host. It handles one call at a time and replies to it.

Rule 1: standard library only, Python 3.10: a bare host needs nothing else.
Rule 2: no message travels between a call and its reply: control traffic would be part of the measurement.
Rule 3: when the channel to the controller closes, everything that the agent started ends with it.
"""
