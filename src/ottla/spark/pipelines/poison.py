"""Which records of a batch make it fail, decided by what its parts do when they are tried by themselves. Pure.

A batch that failed too often was planned in its checkpoint: for each source a range of offsets for each partition. The
search first tries no record (a plan that fails without records has no poison), then all of them, then halves. A half is
known to fail if the whole failed and the other half passed, and is cut again untried; a single record is always tried,
which gives the reason for its letter. The search ends without a result if records fail only together, if all of them
pass, or if there are too many: then it is not the data of a few records.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ottla.spark.offsets import CheckpointError, SourceOffset

MAX_POISON = 100
"""Records of a batch that are set aside. If more of them fail, the flow is wrong, and not its data."""
NOTHING = "-"
"""Spark's text for a source without a place in a batch."""


class Record(NamedTuple):
    """A record of a topic, as a source reads it."""

    source: str
    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Span:
    """Records of one partition."""

    source: str
    topic: str
    partition: int
    start_offset: int
    end_offset: int

    @property
    def count(self) -> int:
        return self.end_offset - self.start_offset

    @property
    def emptied(self) -> Span:
        return replace(self, end_offset=self.start_offset)


class NoPoison(Exception):
    """Why no record of a batch can be set aside."""


@dataclass(frozen=True, slots=True)
class _Part:
    spans: tuple[Span, ...]
    is_known_to_fail: bool = False
    is_first_half: bool = False

    @property
    def count(self) -> int:
        return sum(span.count for span in self.spans)


class PoisonSearch:
    """Asks for parts of a batch to be tried, until the failing records are known."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self._whole = tuple(span for span in spans if span.count > 0)
        self._parts = [_Part(self._whole), _Part(())]
        """The parts still to be tried, the next one last. A second half is below its first half."""
        self.found: dict[Record, str] = {}
        """The records that fail by themselves, each with the reason."""

    def wanted(self) -> tuple[Span, ...] | None:
        """The part to be tried next; None if the search is done."""
        while self._parts and self._parts[-1].is_known_to_fail and self._parts[-1].count > 1:
            self._cut(self._parts.pop())
        return self._parts[-1].spans if self._parts else None

    def passed(self) -> None:
        """The part passed. NoPoison: so nothing can be set aside."""
        part = self._parts.pop()
        if part.is_known_to_fail:
            raise NoPoison("its records fail only together, none of them by itself")
        if part.spans and part.spans == self._whole:
            raise NoPoison("its records pass when they are tried by themselves")
        if part.is_first_half:
            self._parts[-1] = replace(self._parts[-1], is_known_to_fail=True)

    def failed(self, reason: str) -> None:
        """The part failed. NoPoison: so nothing can be set aside."""
        part = self._parts.pop()
        if part.count == 0:
            raise NoPoison(f"it fails without any record, too ({reason})")
        if part.count > 1:
            self._cut(part)
            return
        (span,) = part.spans
        self.found[Record(span.source, span.topic, span.partition, span.start_offset)] = reason
        if len(self.found) > MAX_POISON:
            raise NoPoison(f"more than {MAX_POISON} of its records fail by themselves")

    def _cut(self, part: _Part) -> None:
        first, second, room = [], [], part.count // 2
        for span in part.spans:
            middle = span.start_offset + min(max(room, 0), span.count)
            room -= span.count
            first.append(replace(span, end_offset=middle))
            second.append(replace(span, start_offset=middle))
        self._parts.append(_Part(tuple(one for one in second if one.count)))
        self._parts.append(_Part(tuple(one for one in first if one.count), is_first_half=True))


def planned_spans(planned: str, before: str | None, sources: Sequence[str]) -> list[Span]:
    """What a batch reads: the text of its file in a checkpoint's `offsets`, that of the batch before it (None: it is
    the first), and the sources in the order of the query's plan. NoPoison: a source is no topic."""
    ends = _places(planned)
    starts = [None] * len(ends) if before is None else _places(before)
    if len(ends) != len(sources) or len(starts) != len(ends):
        raise NoPoison(f"its checkpoint has {len(ends)} places, and it reads {len(sources)} sources")
    found: dict[tuple[str, str, int], Span] = {}
    for source, start, end in zip(sources, starts, ends, strict=True):
        if end is None:
            continue
        begins = end.initial if end.initial is not None else {} if start is None else start.positions
        for place, end_offset in end.positions.items():
            span = Span(source, *place, min(begins.get(place, 0), end_offset), end_offset)
            other = found.get((source, *place), span)
            found[source, *place] = replace(
                span,
                start_offset=min(span.start_offset, other.start_offset),
                end_offset=max(span.end_offset, other.end_offset),
            )
    return [found[place] for place in sorted(found)]


def _places(text: str) -> list[SourceOffset | None]:
    """The places of a batch's sources. The file begins with a version and what Spark keeps beside them."""
    found: list[SourceOffset | None] = []
    for line in text.splitlines()[2:]:
        if line.strip() == NOTHING:
            found.append(None)
            continue
        try:
            document = json.loads(line)
            if not isinstance(document, dict) or "logOffset" in document:
                raise NoPoison("only records of topics can be set aside, and it reads other streams, too")
            found.append(SourceOffset.from_json(document))
        except (ValueError, CheckpointError):
            raise NoPoison("only records of topics can be set aside, and it reads other streams, too") from None
    return found


@dataclass(frozen=True, slots=True)
class SetAside:
    """Records that a flow leaves out of one batch, which it does again without them."""

    batch_id: int
    records: Mapping[Record, str]
    """Each with the reason."""

    def to_json(self) -> dict[str, Any]:
        return {
            "batch": self.batch_id,
            "records": [{**record._asdict(), "reason": reason} for record, reason in sorted(self.records.items())],
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> SetAside:
        records = {
            Record(str(one["source"]), str(one["topic"]), int(one["partition"]), int(one["offset"])): str(one["reason"])
            for one in document["records"]
        }
        return cls(int(document["batch"]), records)

    def with_more(self, batch_id: int, records: Mapping[Record, str]) -> SetAside:
        """Adds the records found later in the same batch; those of an earlier batch no longer come."""
        return SetAside(batch_id, {**self.records, **records} if batch_id == self.batch_id else records)
