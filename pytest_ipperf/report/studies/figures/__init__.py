"""Figures of the studies that show curves: a metric along one dimension of the cells, for each arm."""
