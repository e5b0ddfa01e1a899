"""Reports: one audience, one file. Each is made from records alone."""
