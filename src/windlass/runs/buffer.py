"""The events of one run in memory, with consecutive text deltas packed to save memory.

A model may write a megabyte in deltas of a few characters, and each is an event. An event object
takes about 200 bytes; packed, it takes its text and 12 bytes. Reading unpacks the same events.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TypeAlias, overload

from windlass.events import RunEvent, TextDelta, ThoughtDelta, ToolCallDelta

BLOCK = 256
"""The number of events that are packed and unpacked together."""
LOOSE = 4_096
"""The number of newest events that are never packed. Most runs have fewer events."""
Kind: TypeAlias = tuple[type[RunEvent], int] | None


class _PackedDeltas:
    """Packed text deltas with consecutive numbers: of an answer, of a thought, or of a call."""

    __slots__ = ("_first", "_index", "_kind", "_lengths", "_text", "_times")

    def __init__(self, kind: tuple[type[RunEvent], int], pieces: Sequence[RunEvent]) -> None:
        self._kind, self._index = kind
        texts = [_text_of(piece) for piece in pieces]
        self._text = "".join(texts)
        self._lengths = array("I", map(len, texts))
        self._times = array("d", (piece.time for piece in pieces))
        self._first = pieces[0].seq

    def events(self) -> Iterator[RunEvent]:
        start = 0
        stamps = enumerate(zip(self._lengths, self._times, strict=True), self._first)
        for number, (length, time) in stamps:
            text = self._text[start : start + length]
            start += length
            if self._kind is ToolCallDelta:
                yield ToolCallDelta(self._index, text, seq=number, time=time)
            elif self._kind is TextDelta:
                yield TextDelta(text, seq=number, time=time)
            else:
                yield ThoughtDelta(text, seq=number, time=time)


EventBlock: TypeAlias = tuple[RunEvent | _PackedDeltas, ...]


class EventBuffer(Sequence[RunEvent]):
    """An append-only list of events."""

    __slots__ = ("_blocks", "_loose", "_unpacked")

    def __init__(self, events: Iterable[RunEvent] = ()) -> None:
        self._blocks: list[EventBlock] = []
        self._loose: list[RunEvent] = []
        self._unpacked: tuple[int, Sequence[RunEvent]] = (-1, ())
        """The block that was unpacked last: readers usually read in order."""
        self.extend(events)

    def append(self, event: RunEvent) -> None:
        self.extend((event,))

    def extend(self, events: Iterable[RunEvent]) -> None:
        self._loose += events
        while len(self._loose) >= 2 * LOOSE:
            for start in range(0, LOOSE, BLOCK):
                self._blocks.append(_packed(self._loose[start : start + BLOCK]))
            del self._loose[:LOOSE]

    def recorded(self) -> Sequence[RunEvent]:
        """Returns the events so far. Later events do not change the returned sequence."""
        return _Recorded(self, len(self)) if self._blocks else tuple(self._loose)

    def __len__(self) -> int:
        return BLOCK * len(self._blocks) + len(self._loose)

    @overload
    def __getitem__(self, place: int) -> RunEvent: ...
    @overload
    def __getitem__(self, place: slice) -> list[RunEvent]: ...
    def __getitem__(self, place: int | slice) -> RunEvent | list[RunEvent]:
        if not self._blocks:
            return self._loose[place]
        if isinstance(place, slice):
            start, stop, step = place.indices(len(self))
            if step != 1:
                return [self[each] for each in range(start, stop, step)]
            return list(self.between(start, stop))
        if place < 0:
            place += len(self)
        packed = BLOCK * len(self._blocks)
        if place >= packed:
            return self._loose[place - packed]
        if place < 0:
            raise IndexError(place)
        return self._block(place // BLOCK)[place % BLOCK]

    def __iter__(self) -> Iterator[RunEvent]:
        place = 0
        while place < len(self):  # the buffer may grow during the iteration
            yield self[place]
            place += 1

    def between(self, start: int, stop: int) -> Iterator[RunEvent]:
        """Yields the events from `start` to `stop`, unpacking one block at a time."""
        place, stop = start, min(stop, len(self))
        while place < stop:
            packed = BLOCK * len(self._blocks)  # more may have been packed since the last step
            if place < packed:
                first = place % BLOCK
                some = self._block(place // BLOCK)[first : first + stop - place]
            else:
                some = self._loose[place - packed : stop - packed]
            yield from some
            place += len(some)

    def _block(self, number: int) -> Sequence[RunEvent]:
        known, events = self._unpacked
        if known != number:
            events = list(_unpacked(self._blocks[number]))
            self._unpacked = number, events
        return events


class _Recorded(Sequence[RunEvent]):
    """The first `length` events of a buffer."""

    __slots__ = ("_buffer", "_length")

    def __init__(self, buffer: EventBuffer, length: int) -> None:
        self._buffer, self._length = buffer, length

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, place: int) -> RunEvent: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[RunEvent]: ...
    def __getitem__(self, place: int | slice) -> RunEvent | Sequence[RunEvent]:
        if isinstance(place, slice):
            start, stop, step = place.indices(self._length)
            if step != 1:
                return [self._buffer[each] for each in range(start, stop, step)]
            return list(self._buffer.between(start, stop))
        if not -self._length <= place < self._length:
            raise IndexError(place)
        return self._buffer[place if place >= 0 else place + self._length]

    def __iter__(self) -> Iterator[RunEvent]:
        return self._buffer.between(0, self._length)


def _packed(events: Sequence[RunEvent]) -> EventBlock:
    block: list[RunEvent | _PackedDeltas] = []
    for kind, group in groupby(events, key=_kind_of):
        same = list(group)
        if kind is not None and len(same) > 1 and same[-1].seq - same[0].seq == len(same) - 1:
            block.append(_PackedDeltas(kind, same))
        else:
            block += same
    return tuple(block)


def _unpacked(block: EventBlock) -> Iterator[RunEvent]:
    for each in block:
        if isinstance(each, _PackedDeltas):
            yield from each.events()
        else:
            yield each


def _kind_of(event: RunEvent) -> Kind:
    """Returns a key that deltas of one text share; None for events that cannot be packed."""
    match event:
        case ToolCallDelta(index=index):
            return ToolCallDelta, index
        case TextDelta(signature=None, extra=None, logprobs=None, about=None):
            return TextDelta, 0
        case ThoughtDelta(signature=None, extra=None, about=None):
            return ThoughtDelta, 0
        case _:
            return None


def _text_of(event: RunEvent) -> str:
    if isinstance(event, ToolCallDelta):
        return event.json
    assert isinstance(event, TextDelta | ThoughtDelta)
    return event.text
