"""Reports, each made from records alone."""
