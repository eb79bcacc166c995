from __future__ import annotations

from ottla.broker.apis.mutations import refuse_all
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from ottla.wire.messages.update_features import UpdateFeaturesResponse

NO_ROOM = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room")


def test_each_topic_of_a_reply_whose_records_were_not_written_is_refused() -> None:
    reply = CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name="good"),
            CreatableTopicResult(name="bad", error_code=ErrorCode.TOPIC_ALREADY_EXISTS, error_message="it exists"),
        ]
    )
    assert refuse_all(reply, NO_ROOM)
    assert [(topic.name, topic.error_code, topic.error_message) for topic in reply.topics] == [
        ("good", ErrorCode.KAFKA_STORAGE_ERROR, "no room"),
        ("bad", ErrorCode.TOPIC_ALREADY_EXISTS, "it exists"),
    ]


def test_a_reply_without_rows_has_no_place_for_it() -> None:
    assert not refuse_all(UpdateFeaturesResponse(), NO_ROOM)
    assert not refuse_all(None, NO_ROOM)
