"""Method, environment, files and glossary of a session."""
