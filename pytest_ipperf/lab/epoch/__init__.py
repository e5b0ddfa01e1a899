"""Epochs: a testbed that is built, served, provisioned and taken down."""
