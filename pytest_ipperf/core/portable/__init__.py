"""Part of the core that travels to hosts; needs only the standard library of Python 3.10."""
