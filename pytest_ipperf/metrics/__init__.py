"""Metrics: one quantity, one file. Each offers `measure`."""

from pytest_ipperf.core.design.limit import Limit
from pytest_ipperf.core.portable.registry import Registry
from pytest_ipperf.metrics.base import Measure


class Metrics(Registry[Measure]):
    """The metrics of the files, and those of limits by the name of the limit, such as `p95<=20ms`."""

    def __getitem__(self, name: str) -> Measure:
        limit = Limit.named(name)
        if limit is None:
            return super().__getitem__(name)
        return Measure(metric=limit.metric, value=lambda _: None, lacking="limits are judged from all runs of an arm")

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (isinstance(name, str) and Limit.named(name) is not None)


METRICS: Metrics = Metrics(__name__, list(__path__), "measure")
