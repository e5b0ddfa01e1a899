"""The list of all cells, with its filters."""
