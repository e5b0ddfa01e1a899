"""Pipeline of a night: run its two sessions of pytest, decide, write the verdict and the reports."""
