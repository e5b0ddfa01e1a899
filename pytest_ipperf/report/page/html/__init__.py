"""Compose HTML: escaping, badges of verdicts, style sheets."""
