"""The lab: the only room with hands. It knows the hosts, enters them, and carries orders to their agents.

Rule 1: `execnet` is imported in `link` alone.
Rule 2: everything that is opened is a context manager, so that every way out closes it.
Rule 3: trouble is a LabError (the testbed) or an AgentError (the instrument), in one sentence.
"""
