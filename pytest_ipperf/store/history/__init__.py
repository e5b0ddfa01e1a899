"""The history of a folder of records: nights and accepted changes."""
