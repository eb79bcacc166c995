"""How a client and a broker agree on versions: ApiVersions first, then the newest version that both know.

One place for all connections of Ottla (the client's, Spark's, one node's to another): it knows no socket. A `Greeting`
makes the request and handles the answer; `Versions` chooses the version of each later request."""

from __future__ import annotations

from struct import Struct

from ottla import SOFTWARE_NAME, __version__
from ottla.wire.apis import API_VERSIONS, APIS, response_class
from ottla.wire.codec import decode
from ottla.wire.errors import ErrorCode
from ottla.wire.frames import decode_response_header
from ottla.wire.message import Message
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.primitives import WireError

_ERROR_CODE = Struct(">h")
ANY_NODE = -1
"""The node id of a client that does not know the id of its peer: a bootstrap server."""


class Versions:
    """The versions of the other side, and the choice that follows."""

    __slots__ = ("finalized_features", "spoken")

    def __init__(
        self, spoken: dict[int, tuple[int, int]] | None = None, finalized_features: dict[str, int] | None = None
    ) -> None:
        self.spoken = spoken or {}
        """api key -> first and last version."""
        self.finalized_features = finalized_features or {}

    @classmethod
    def of(cls, response: ApiVersionsResponse) -> Versions:
        return cls(
            {api.api_key: (api.min_version, api.max_version) for api in response.api_keys},
            {feature.name: feature.max_version_level for feature in response.finalized_features},
        )

    def choose(self, api_key: int, max_version: int | None = None) -> int | None:
        """The newest version that both sides know, at most max_version; None if there is none. A version that Kafka has
        not finished yet is used only if max_version names it."""
        api = APIS.get(api_key)
        spoken = self.spoken.get(api_key)
        if api is None or spoken is None:
            return None
        if max_version is None:
            max_version = api.max_version - 1 if api.latest_version_unstable else api.max_version
        version = min(api.max_version, max_version, spoken[1])
        return version if version >= max(spoken[0], api.min_version) else None

    def why_not(self, api_key: int) -> str:
        """Why no version was found, to follow the broker's address."""
        spoken = self.spoken.get(api_key)
        return "does not offer it" if spoken is None else f"offers versions {spoken[0]} to {spoken[1]}"


class Greeting:
    """The first request of a connection, newest version first (KIP-511): a broker that lacks that version answers in
    version 0 with the versions that it has, and is asked once more."""

    __slots__ = ("_is_repeated", "request", "version")

    def __init__(self, cluster_id: str | None = None, node_id: int = ANY_NODE) -> None:
        """With a cluster id and a node id the other side answers REBOOTSTRAP_REQUIRED if its own differ (KIP-1242,
        since Kafka 4.4; older brokers do not look)."""
        self._is_repeated = False
        self.request = ApiVersionsRequest(
            client_software_name=SOFTWARE_NAME,
            client_software_version=__version__,
            cluster_id=cluster_id,
            node_id=node_id,
        )
        self.version = APIS[API_VERSIONS].max_version
        """In which the request is sent next."""

    def handle(self, response: ApiVersionsResponse) -> Versions | None:
        """The versions of the other side; None if the request must be sent again, in `version`. The caller handles
        other error codes."""
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION and not self._is_repeated:
            spoken = next((api.max_version for api in response.api_keys if api.api_key == API_VERSIONS), 0)
            self._is_repeated, self.version = True, min(self.version, spoken)
            return None
        return Versions.of(response)


def decode_answer(frame: memoryview, expected_id: int, api_key: int, version: int) -> Message:
    """The response in a frame; WireError if it is not the one that is due: answers come in the order of requests."""
    correlation_id, position = decode_response_header(frame, api_key, version)
    if correlation_id != expected_id:
        raise WireError(f"answer {correlation_id} where {expected_id} was due")
    if api_key == API_VERSIONS and _ERROR_CODE.unpack_from(frame, 4)[0] == ErrorCode.UNSUPPORTED_VERSION:
        version = 0
    return decode(response_class(api_key), version, frame, position)
