"""A night: its two sessions of pytest, what is decided of them, and what is written of that."""
