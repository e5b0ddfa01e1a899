"""A card: what one test shows of its cell where a person clicks on it: a title, the answer, a table and a plot."""

from pytest_ipperf.report.allure_card.csv import values_csv
from pytest_ipperf.report.allure_card.html import description, lack
from pytest_ipperf.report.allure_card.plot import plot
from pytest_ipperf.report.allure_card.title import factor_texts, title

__all__ = ["description", "factor_texts", "lack", "plot", "title", "values_csv"]
