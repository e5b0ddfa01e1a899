"""Describe the Allure result of one cell: a title, the answer, a table and a plot."""

from pytest_ipperf.report.allure_card.csv import values_csv
from pytest_ipperf.report.allure_card.html import description, without_answer
from pytest_ipperf.report.allure_card.plot import plot
from pytest_ipperf.report.allure_card.title import factor_texts, title

__all__ = ["description", "factor_texts", "plot", "title", "values_csv", "without_answer"]
