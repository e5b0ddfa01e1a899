"""A card: what one test shows of its cell where a person clicks on it: a title, the answer, a table and a plot."""

from pytest_ipperf.report.card.face import factor_texts, title
from pytest_ipperf.report.card.page import description, lack
from pytest_ipperf.report.card.plot import plot
from pytest_ipperf.report.card.values import values_csv

__all__ = ["description", "factor_texts", "lack", "plot", "title", "values_csv"]
