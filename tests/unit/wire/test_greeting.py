"""Version negotiation without a socket: ApiVersions, its refusal, and the choice for every later request."""

from __future__ import annotations

import pytest

from ottla import __version__
from ottla.wire import Message, WireError
from ottla.wire.apis import API_VERSIONS, APIS
from ottla.wire.frames import encode_response
from ottla.wire.greeting import Greeting, Versions, decode_answer
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsResponse, FinalizedFeatureKey
from ottla.wire.messages.metadata import MetadataResponse

METADATA, INIT_PRODUCER_ID = 3, 22


def frame(correlation_id: int, response: Message, version: int) -> memoryview:
    api_key = type(response).__schema__.api_key
    assert api_key is not None
    return memoryview(b"".join(bytes(piece) for piece in encode_response(api_key, version, correlation_id, response)))[
        4:
    ]


def test_a_broker_says_what_it_knows() -> None:
    greeting = Greeting()
    assert greeting.version == APIS[API_VERSIONS].max_version
    assert greeting.request.client_software_version == __version__
    versions = greeting.handle(
        ApiVersionsResponse(
            api_keys=[ApiVersion(api_key=METADATA, min_version=1, max_version=9)],
            finalized_features=[FinalizedFeatureKey(name="transaction.version", max_version_level=2)],
        )
    )
    assert versions is not None
    assert versions.spoken == {METADATA: (1, 9)}
    assert versions.finalized_features == {"transaction.version": 2}


def test_an_old_broker_is_asked_once_more_in_its_own_version() -> None:
    greeting = Greeting()
    refusal = ApiVersionsResponse(
        error_code=35, api_keys=[ApiVersion(api_key=API_VERSIONS, min_version=0, max_version=2)]
    )
    assert greeting.handle(refusal) is None
    assert greeting.version == 2
    assert greeting.handle(refusal) is not None, "not again and again: the caller looks at the error"


def test_the_newest_common_version_is_chosen() -> None:
    newest = APIS[METADATA].max_version
    assert Versions({METADATA: (0, 99)}).choose(METADATA) == newest
    assert Versions({METADATA: (0, 9)}).choose(METADATA) == 9
    assert Versions({METADATA: (0, 99)}).choose(METADATA, 5) == 5
    assert Versions({METADATA: (newest + 1, 99)}).choose(METADATA) is None
    assert Versions({METADATA: (6, 9)}).choose(METADATA, 5) is None
    assert Versions().choose(METADATA) is None
    assert Versions({9_999: (0, 1)}).choose(9_999) is None, "an API that this side does not know"
    assert Versions().why_not(METADATA) == "does not offer it"
    assert Versions({METADATA: (14, 20)}).why_not(METADATA) == "offers versions 14 to 20"


def test_an_unfinished_version_is_used_only_if_it_is_named() -> None:
    api = APIS[INIT_PRODUCER_ID]
    assert api.latest_version_unstable
    versions = Versions({INIT_PRODUCER_ID: (0, api.max_version)})
    assert versions.choose(INIT_PRODUCER_ID) == api.max_version - 1
    assert versions.choose(INIT_PRODUCER_ID, api.max_version) == api.max_version


def test_an_answer_is_the_one_that_is_due() -> None:
    answer = frame(7, MetadataResponse(controller_id=3), 9)
    assert decode_answer(answer, 7, METADATA, 9) == MetadataResponse(controller_id=3)
    with pytest.raises(WireError, match="answer 7 where 8 was due"):
        decode_answer(answer, 8, METADATA, 9)


def test_a_refused_greeting_comes_in_version_0() -> None:
    refusal = ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(api_key=API_VERSIONS, max_version=2)])
    decoded = decode_answer(frame(0, refusal, 0), 0, API_VERSIONS, 4)
    assert isinstance(decoded, ApiVersionsResponse)
    assert decoded.error_code == 35
