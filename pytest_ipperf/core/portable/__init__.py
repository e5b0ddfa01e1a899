"""The part of the core that travels to hosts; it needs the standard library of Python 3.10 alone."""
