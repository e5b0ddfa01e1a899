"""Deploy packages to a host's Python: resolve, pack, send and cache them."""
