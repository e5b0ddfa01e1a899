"""The rows and columns that all tables share."""
