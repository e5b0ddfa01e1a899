"""SNMP: interface counters of routers and hosts."""
