"""Figures of the page, as SVG."""
