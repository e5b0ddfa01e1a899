"""Data of a session in the forms that programs read: rows, series for monitoring, and the JSON document."""
