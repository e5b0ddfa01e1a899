"""Distribution over the workers of pytest-xdist."""
