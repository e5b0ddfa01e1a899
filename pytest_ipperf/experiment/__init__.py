"""The experiment: carries out the plan of one workload. The only meeting of the design and the lab."""

from pytest_ipperf.experiment.answer import Answer, answer
from pytest_ipperf.experiment.measurement import Conditions, Measurement, RunObserver
from pytest_ipperf.experiment.workload import measure

__all__ = ["Answer", "Conditions", "Measurement", "RunObserver", "answer", "measure"]
