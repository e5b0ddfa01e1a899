"""Epochs: building, serving, provisioning and taking down a testbed."""
