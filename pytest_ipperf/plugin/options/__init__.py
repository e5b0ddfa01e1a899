"""Options: declared, given short names, parsed and validated."""
