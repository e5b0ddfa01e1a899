"""Experiment: carry out the plan of one workload. This is the only package that uses both the design and the lab."""

from pytest_ipperf.experiment.answer import Answer, answer, answer_alone, epoch_s, limit_of, tail_of
from pytest_ipperf.experiment.confirmation import FreshEpochs, flagged
from pytest_ipperf.experiment.kept_runs import KeptRuns
from pytest_ipperf.experiment.measurement import Conditions, Measurement, RunObserver
from pytest_ipperf.experiment.workload import measure

__all__ = [
    "Answer",
    "Conditions",
    "FreshEpochs",
    "KeptRuns",
    "Measurement",
    "RunObserver",
    "answer",
    "answer_alone",
    "epoch_s",
    "flagged",
    "limit_of",
    "measure",
    "tail_of",
]
