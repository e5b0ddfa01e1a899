"""The tables and texts of the terminal."""
