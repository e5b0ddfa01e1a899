"""Reach the hosts of a testbed, start agents on them and call the agents.

Rule 1: only `agents/client.py` imports `execnet`.
Rule 2: every resource is a context manager, so that it is closed on every way out.
Rule 3: failures are a LabError (the testbed) or an AgentError (the instrument), in one sentence.
"""
