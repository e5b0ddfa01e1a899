"""Public way to the data of a session, for scripts and notebooks: `pytest_ipperf.load(folder)`."""

from pytest_ipperf.data.session_data import Rows, SessionData, load

__all__ = ["Rows", "SessionData", "load"]
