"""The feed of metadata: committed records change the image, and the rooms follow each change.

    Loading      -> Reconciling   the quorum has caught up: the image is current, and logs are created and removed to
    match it Reconciling  -> Live          partitions are open: changes committed meanwhile are delivered to the rooms
    Live each commit reaches the rooms at once, in the order in which they are given

While loading, only the image changes. While reconciling, the image changes and the rooms learn of it later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ottla.broker.ground import Ground
from ottla.broker.metadata.events import log_changes
from ottla.cluster import ImageChanges

Follower = Callable[[ImageChanges], None]


class Loading:
    """The rooms do not get changes yet."""


@dataclass(slots=True)
class Reconciling:
    held: list[tuple[ImageChanges, int]] = field(default_factory=list)
    """Changes that the rooms have not got yet, with their end offsets."""


@dataclass(slots=True)
class Live:
    followers: Sequence[Follower]


class Feed:
    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._state: Loading | Reconciling | Live = Loading()
        self.on_change: Follower | None = None
        """Called with every change once the image has it, in every state and before the rooms: for ACLs, which
        controllers' listeners check while logs are still being opened.
        """

    def committed(self, records: Sequence[Any], end_offset: int) -> None:
        """Records of the metadata log, in its order."""
        self._changed(self._ground.image.apply(records), end_offset)

    def snapshot(self, records: Sequence[Any], end_offset: int) -> None:
        """Replace the image by a snapshot: this node was away longer than the log is kept."""
        self._changed(self._ground.image.replace(records), end_offset)

    def reconcile(self) -> None:
        assert isinstance(self._state, Loading)
        self._state = Reconciling()

    def go_live(self, followers: Sequence[Follower]) -> None:
        """Deliver changes to the rooms from now on, and first those committed while logs were opened."""
        assert isinstance(self._state, Reconciling)
        held = self._state.held
        self._state = Live(followers)
        for changes, end_offset in held:
            self._take(changes, end_offset)

    def _changed(self, changes: ImageChanges, end_offset: int) -> None:
        if self.on_change is not None:
            self.on_change(changes)
        self._take(changes, end_offset)

    def _take(self, changes: ImageChanges, end_offset: int) -> None:
        match self._state:
            case Reconciling(held):
                held.append((changes, end_offset))
                return
            case Live(followers):
                self._ground.image_offset = end_offset
                log_changes(changes, self._ground.image)
                for follow in followers:
                    follow(changes)
            case _:
                self._ground.image_offset = end_offset
