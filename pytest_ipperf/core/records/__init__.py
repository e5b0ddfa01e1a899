"""Records: what is kept of a cell and what is computed from kept ones."""
