"""Host state: what is changed on a host, undone, leased, marked and repaired."""
