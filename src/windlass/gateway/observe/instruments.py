"""Prometheus counters, gauges and histograms for use in one event loop.

The instruments of `prometheus_client` take a lock for every update, and a request makes a dozen
updates. These have no lock; `prometheus_client` only renders them.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector


class Count:
    """One series of a counter or gauge."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self, amount: float = 1) -> None:
        self.value += amount

    def dec(self) -> None:
        self.value -= 1


class Times:
    """One series of a histogram: the number of values up to each bound, and their sum."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def show(self, family: HistogramMetricFamily, labels: tuple[str, ...]) -> None:
        names = [*map(str, self._bounds), "+Inf"]
        below, buckets = 0, list[tuple[str, float]]()
        for name, count in zip(names, self._counts, strict=True):
            below += count
            buckets.append((name, below))
        family.add_metric(labels, buckets, self._sum)


C = TypeVar("C", Count, Times)


class _Family(Generic[C]):
    """The series of one metric by the values of its labels."""

    def __init__(self, name: str, help: str, labels: tuple[str, ...]) -> None:
        self.name, self.help, self.label_names = name, help, labels
        self.children: dict[tuple[str, ...], C] = {}

    def _child(self, values: Iterable[object], new: C) -> C:
        return self.children.setdefault(tuple(map(str, values)), new)


class Counter(_Family[Count]):
    def labels(self, *values: object) -> Count:
        return self._child(values, Count())

    def metric(self) -> Metric:
        family = CounterMetricFamily(self.name, self.help, labels=self.label_names)
        for values, count in self.children.items():
            family.add_metric(values, count.value)
        return family


class Histogram(_Family[Times]):
    def __init__(
        self, name: str, help: str, labels: tuple[str, ...], bounds: tuple[float, ...]
    ) -> None:
        super().__init__(name, help, labels)
        self._bounds = bounds

    def labels(self, *values: object) -> Times:
        return self._child(values, Times(self._bounds))

    def metric(self) -> Metric:
        family = HistogramMetricFamily(self.name, self.help, labels=self.label_names)
        for values, times in self.children.items():
            times.show(family, values)
        return family


class Gauge(Count):
    __slots__ = ("_help", "_name")

    def __init__(self, name: str, help: str) -> None:
        super().__init__()
        self._name, self._help = name, help

    def metric(self) -> Metric:
        return GaugeMetricFamily(self._name, self._help, value=self.value)


class Instruments(Collector):
    """Creates instruments and collects them for a registry of `prometheus_client`."""

    def __init__(self) -> None:
        self._all: list[Counter | Histogram | Gauge] = []

    def counter(self, name: str, help: str, *labels: str) -> Counter:
        counter = Counter(name, help, labels)
        self._all.append(counter)
        return counter

    def histogram(self, name: str, help: str, bounds: tuple[float, ...], *labels: str) -> Histogram:
        histogram = Histogram(name, help, labels, bounds)
        self._all.append(histogram)
        return histogram

    def gauge(self, name: str, help: str) -> Gauge:
        gauge = Gauge(name, help)
        self._all.append(gauge)
        return gauge

    def collect(self) -> Iterator[Metric]:
        for instrument in self._all:
            yield instrument.metric()
