"""Records: stored results of cells, and computations with them."""
