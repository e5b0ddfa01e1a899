"""Forecast of a session: how long its plans take, and the file in which sessions leave figures for later ones."""
