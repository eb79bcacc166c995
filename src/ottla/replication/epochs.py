"""Leader epochs of a partition (KIP-101): the offset at which each leader began to write. A follower, or a consumer
that checks for truncation, asks for the end of an epoch and so finds the offset at which two logs diverge. Entries rise
in epoch and in start offset; invariant E1.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class LeaderEpochs:
    """Kafka's leader epoch cache; what leader-epoch-checkpoint holds. `is_dirty` says that the file lags behind."""

    __slots__ = ("epochs", "is_dirty", "latest", "start_offsets")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self.epochs: list[int] = []
        self.start_offsets: list[int] = []
        self.latest = UNDEFINED_EPOCH
        for epoch, start_offset in entries:
            self.assign(epoch, start_offset)
        self.is_dirty = False

    def __len__(self) -> int:
        return len(self.epochs)

    @property
    def entries(self) -> list[tuple[int, int]]:
        """(epoch, start offset), oldest first."""
        return list(zip(self.epochs, self.start_offsets, strict=True))

    @property
    def earliest(self) -> tuple[int, int] | None:
        return (self.epochs[0], self.start_offsets[0]) if self.epochs else None

    def assign(self, epoch: int, start_offset: int) -> bool:
        """The leader of `epoch` writes from `start_offset` on. Entries that contradict it are removed: the newer
        history wins.
        """
        assert epoch >= 0 and start_offset >= 0
        epochs, starts = self.epochs, self.start_offsets
        if epochs and epochs[-1] == epoch and start_offset >= starts[-1]:
            return False
        while epochs and (epochs[-1] >= epoch or starts[-1] >= start_offset):
            epochs.pop()
            starts.pop()
        epochs.append(epoch)
        starts.append(start_offset)
        self.latest = epoch
        self.is_dirty = True
        return True

    def epoch_for_offset(self, offset: int) -> int | None:
        index = bisect_right(self.start_offsets, offset) - 1
        return self.epochs[index] if index >= 0 else None

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest epoch not above the asked one and where it ends: the start of the next, or the log's end. An
        unknown epoch gives (-1, -1); an epoch before all known ones gives itself and the first start offset.
        """
        epochs = self.epochs
        if epoch == UNDEFINED_EPOCH or not epochs:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == epochs[-1]:
            return epoch, log_end_offset
        higher = bisect_right(epochs, epoch)
        if higher == len(epochs):
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        return (epochs[higher - 1] if higher else epoch), self.start_offsets[higher]

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget epochs that start at or after the log's new end."""
        keep = bisect_left(self.start_offsets, end_offset)
        if end_offset >= 0 and keep < len(self.epochs):
            del self.epochs[keep:], self.start_offsets[keep:]
            self.latest = self.epochs[-1] if self.epochs else UNDEFINED_EPOCH
            self.is_dirty = True

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget epochs that end before the log's new start; the one that holds it now starts there."""
        index = bisect_right(self.start_offsets, start_offset) - 1
        if index < 0 or (index == 0 and self.start_offsets[0] == start_offset):
            return
        del self.epochs[:index], self.start_offsets[:index]
        self.start_offsets[0] = start_offset
        self.is_dirty = True

    def clear(self) -> None:
        if self.epochs:
            self.epochs.clear()
            self.start_offsets.clear()
            self.latest = UNDEFINED_EPOCH
            self.is_dirty = True
