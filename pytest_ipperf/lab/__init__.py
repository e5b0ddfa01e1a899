"""Reach the hosts of a testbed, start agents on them and call these.

Rule 1: `execnet` is imported in `agents/client.py` alone.
Rule 2: everything that is opened is a context manager, so that every way out closes it.
Rule 3: trouble is a LabError (the testbed) or an AgentError (the instrument), in one sentence.
"""
