"""What an API file declares: everything about its API that is not in Kafka's message definitions.

    api = Api(key=57, handler=update_features, needs=cluster_wide(AclOperation.ALTER), is_forwarded=True)

The handler's parameters between the request and the caller are the rooms it needs, by their types: a handler
`create_topics(request: CreateTopicsRequest, metadata: Metadata, quotas: Quotas, caller: Caller)` is called with this
node's metadata and quotas, and nothing else. The file is named after the API (`create_topics.py`), and its existence
makes this node serve the API.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from ottla.wire.acls import AclOperation, AclResource

Handler = Callable[..., Any]
"""(request, *rooms, caller) -> the response, an awaitable for it, or None if no response is to be sent."""


class DelayedAnswer(Protocol):
    """An answer to a frame that is not ready yet; `on_answer` is called with it, or `cancel` before."""

    on_answer: Callable[[Any], None]

    def cancel(self) -> None: ...


FrameHandler = Callable[..., bytes | list[Any] | DelayedAnswer | None]
"""(frame, position, version, correlation id, rooms, access) -> the answer's bytes; None if the ordinary handler must
take the request. `access` is None if the node has no authorizer.
"""


class Need(NamedTuple):
    """An operation on a type of resource that an API checks."""

    operation: AclOperation
    resource: AclResource
    is_required: bool = False
    """Whether the table refuses the request of a client that may not do this, before the handler sees it."""


def cluster_wide(operation: AclOperation) -> tuple[Need, ...]:
    """The permission of an API that requires an operation on the cluster. Its response has an error
    code of its own, which then is CLUSTER_AUTHORIZATION_FAILED."""
    return (Need(operation, AclResource.CLUSTER, is_required=True),)


@dataclass(slots=True, frozen=True, kw_only=True)
class Api:
    key: int
    handler: Handler
    needs: tuple[Need, ...]
    """Everything that the table or the handler checks with `Caller.is_allowed`; empty if every client may send it."""
    is_forwarded: bool = False
    """Whether only the active controller answers it: brokers pass it on (KIP-590)."""
    is_checked_then_forwarded: bool = False
    """Whether the broker checks its own part, and the handler forwards the rest."""
    frame: FrameHandler | None = None
    """Answers an ordinary request directly from its frame."""
    frame_rooms: tuple[type, ...] = ()
    """The types of the rooms that `frame` gets, as one tuple: a call with fewer arguments is faster."""

    @property
    def required(self) -> AclOperation | None:
        """The operation on the cluster that a client must be allowed for any answer."""
        return next((need.operation for need in self.needs if need.is_required), None)

    @property
    def rooms(self) -> tuple[type, ...]:
        """The types of the rooms that the handler needs, as its signature names them."""
        code = self.handler.__code__
        names = code.co_varnames[1 : code.co_argcount - 1]
        return tuple(self.handler.__globals__[self.handler.__annotations__[name]] for name in names)
