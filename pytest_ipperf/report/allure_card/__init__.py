"""Description of a cell's Allure result: title, answer, table and plot."""

from pytest_ipperf.report.allure_card.csv import values_csv
from pytest_ipperf.report.allure_card.distribution import distribution_plot
from pytest_ipperf.report.allure_card.html import description, without_answer
from pytest_ipperf.report.allure_card.plot import plot
from pytest_ipperf.report.allure_card.title import factor_texts, title

__all__ = ["description", "distribution_plot", "factor_texts", "plot", "title", "values_csv", "without_answer"]
