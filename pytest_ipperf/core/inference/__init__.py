"""Inference: effects, verdicts, interim analysis and power."""
