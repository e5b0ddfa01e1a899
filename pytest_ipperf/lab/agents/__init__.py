"""Agents: started on hosts, called, kept alive, leased and shut down."""
