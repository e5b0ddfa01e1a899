"""Host state: changes to a host, their rollback, leases, dirty marks and repair."""
