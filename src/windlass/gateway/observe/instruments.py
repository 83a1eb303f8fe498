"""Counts and times that one event loop keeps, shown to Prometheus by its own library.

That library's own instruments take a lock for every count, and a request makes a dozen of them.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

__all__ = ["Count", "Counter", "Gauge", "Histogram", "Instruments", "Times"]


class Count:
    """One number."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self, amount: float = 1) -> None:
        self.value += amount

    def dec(self) -> None:
        self.value -= 1


class Times:
    """How many values there were up to each bound, and their sum."""

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
    """The children of one metric, by the values of its labels."""

    def __init__(self, name: str, says: str, labels: tuple[str, ...]) -> None:
        self.name, self.says, self.label_names = name, says, labels
        self.children: dict[tuple[str, ...], C] = {}

    def _child(self, values: Iterable[object], new: C) -> C:
        return self.children.setdefault(tuple(map(str, values)), new)


class Counter(_Family[Count]):
    def labels(self, *values: object) -> Count:
        return self._child(values, Count())

    def metric(self) -> Metric:
        family = CounterMetricFamily(self.name, self.says, labels=self.label_names)
        for values, count in self.children.items():
            family.add_metric(values, count.value)
        return family


class Histogram(_Family[Times]):
    def __init__(
        self, name: str, says: str, labels: tuple[str, ...], bounds: tuple[float, ...]
    ) -> None:
        super().__init__(name, says, labels)
        self._bounds = bounds

    def labels(self, *values: object) -> Times:
        return self._child(values, Times(self._bounds))

    def metric(self) -> Metric:
        family = HistogramMetricFamily(self.name, self.says, labels=self.label_names)
        for values, times in self.children.items():
            times.show(family, values)
        return family


class Gauge(Count):
    __slots__ = ("_name", "_says")

    def __init__(self, name: str, says: str) -> None:
        super().__init__()
        self._name, self._says = name, says

    def metric(self) -> Metric:
        return GaugeMetricFamily(self._name, self._says, value=self.value)


class Instruments(Collector):
    """A set of instruments, as Prometheus' library reads them."""

    def __init__(self) -> None:
        self._all: list[Counter | Histogram | Gauge] = []

    def counter(self, name: str, says: str, *labels: str) -> Counter:
        made = Counter(name, says, labels)
        self._all.append(made)
        return made

    def histogram(self, name: str, says: str, bounds: tuple[float, ...], *labels: str) -> Histogram:
        made = Histogram(name, says, labels, bounds)
        self._all.append(made)
        return made

    def gauge(self, name: str, says: str) -> Gauge:
        made = Gauge(name, says)
        self._all.append(made)
        return made

    def collect(self) -> Iterator[Metric]:
        for instrument in self._all:
            yield instrument.metric()
