"""Statistics of samples and runs."""
