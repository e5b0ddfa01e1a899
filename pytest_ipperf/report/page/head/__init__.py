"""The top of the page: the banner with the answer, and the night."""
