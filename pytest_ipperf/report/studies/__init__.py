"""The tables and figures of the published studies."""
