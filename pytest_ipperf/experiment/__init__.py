"""The experiment: carries out the plan of one workload. The only meeting of the design and the lab."""

from pytest_ipperf.experiment.workload import METRIC, Conditions, Listener, Measurement, measure

__all__ = ["METRIC", "Conditions", "Listener", "Measurement", "measure"]
