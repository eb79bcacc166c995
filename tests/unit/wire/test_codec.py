"""Every message in every version survives its own bytes, and broken or unsupported ones are refused by name."""

from __future__ import annotations

import copy
import pickle
from random import Random

import pytest

from ottla.wire import (
    Message,
    UnsupportedVersion,
    WireError,
    decode,
    decode_from,
    decoder,
    encode,
    encode_bytes,
    encoder,
    schema,
)
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from ottla.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.offset_fetch import OffsetFetchRequest
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.messages.records.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataValue,
)
from ottla.wire.messages.records.partition_change_record import PartitionChangeRecord
from ottla.wire.messages.records.partition_record import PartitionRecord
from tests.unit.wire.values import all_messages, make, versions_of

MESSAGES = all_messages()


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_every_version_decodes_what_it_encodes(cls: type[Message]) -> None:
    rng = Random(cls.__name__)
    for version in versions_of(cls):
        for _ in range(5):
            message = make(cls, version, rng, is_flexible=schema(cls).is_flexible(version))
            encoded = encode_bytes(message, version)
            for buffer in (encoded, bytearray(encoded), memoryview(encoded)):
                assert decode_from(cls, version, buffer) == (message, len(encoded))
            assert encode_bytes(decode(cls, version, encoded), version) == encoded


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_no_version_reads_past_its_end(cls: type[Message]) -> None:
    rng = Random(cls.__name__)
    for version in versions_of(cls):
        encoded = encode_bytes(make(cls, version, rng, is_flexible=schema(cls).is_flexible(version)), version)
        for size in {0, 1, len(encoded) // 2, max(len(encoded) - 1, 0)}:
            if size < len(encoded):
                with pytest.raises(WireError):
                    decode(cls, version, encoded[:size])


def test_a_message_is_read_in_the_middle_of_a_buffer() -> None:
    heartbeat = HeartbeatRequest(group_id="group", generation_id=3, member_id="member")
    encoded = encode_bytes(heartbeat, 4)
    for buffer in (b"???" + encoded + b"!", memoryview(b"???" + encoded + b"!")):
        assert decode_from(HeartbeatRequest, 4, buffer, 3) == (heartbeat, 3 + len(encoded))


def test_codecs_are_compiled_once() -> None:
    assert decoder(HeartbeatRequest, 4) is decoder(HeartbeatRequest, 4)
    assert encoder(HeartbeatRequest, 4) is encoder(HeartbeatRequest, 4)
    assert decoder(HeartbeatRequest, 3) is not decoder(HeartbeatRequest, 4)


@pytest.mark.parametrize("version", [-1, 5])
def test_a_version_that_does_not_exist_is_unsupported(version: int) -> None:
    with pytest.raises(UnsupportedVersion, match="HeartbeatRequest has versions 0 to 4"):
        decoder(HeartbeatRequest, version)
    with pytest.raises(UnsupportedVersion):
        encode(HeartbeatRequest(), version)


def test_a_field_that_the_version_lacks_must_hold_its_default() -> None:
    with pytest.raises(UnsupportedVersion, match="group_instance_id"):
        encode(HeartbeatRequest(group_id="g", group_instance_id="static"), 2)
    encode(HeartbeatRequest(group_id="g", group_instance_id="static"), 3)


def test_an_ignorable_field_is_dropped_by_versions_that_lack_it() -> None:
    request = FetchRequest(rack_id="rack", topics=[FetchTopic(topic="t")])
    assert decode(FetchRequest, 10, encode_bytes(request, 10)).rack_id == ""
    assert decode(FetchRequest, 11, encode_bytes(request, 11)).rack_id == "rack"


def test_records_are_views_in_and_pass_through_out() -> None:
    batch = bytes(1000)
    request = ProduceRequest(
        acks=-1,
        topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(index=1, records=batch)])],
    )
    pieces = encode(request, 9)
    assert [type(piece) for piece in pieces] == [bytes, bytes, bytes]
    assert pieces[1] is batch
    frame = bytearray(b"".join(pieces))
    records = decode(ProduceRequest, 9, frame).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview) and records.obj is frame and records == batch
    frame[frame.index(batch)] = 7
    assert records[0] == 7


class FileSlice:
    """Stands for bytes of a segment that are never read into memory."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def read(self) -> bytes:
        return bytes(self.size)


@pytest.mark.parametrize("version", [4, 18])
def test_a_slice_of_a_file_goes_into_the_scatter_list_as_it_is(version: int) -> None:
    file_slice = FileSlice(70_000)
    topics = [FetchableTopicResponse(partitions=[PartitionData(records=file_slice), PartitionData(records=b"")])]
    pieces = encode(FetchResponse(responses=topics), version)
    assert pieces[1] is file_slice
    assert b"" not in pieces
    encoded = encode_bytes(FetchResponse(responses=topics), version)
    first, second = decode(FetchResponse, version, encoded).responses[0].partitions
    assert (first.records, second.records) == (bytes(70_000), b"")


def test_null_records_are_null() -> None:
    response = FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData(records=None)])])
    for version in (4, 12):
        assert decode(FetchResponse, version, encode_bytes(response, version)) == response


def test_null_and_empty_are_different() -> None:
    for version in (1, 9):
        everything = encode_bytes(MetadataRequest(topics=None), version)
        nothing = encode_bytes(MetadataRequest(topics=[]), version)
        assert decode(MetadataRequest, version, everything).topics is None
        assert decode(MetadataRequest, version, nothing).topics == []


def test_null_is_refused_where_the_version_has_none() -> None:
    with pytest.raises(WireError):
        encode(MetadataRequest(topics=None), 0)
    with pytest.raises(WireError, match="topics is null"):
        decode(MetadataRequest, 0, b"\xff\xff\xff\xff")
    with pytest.raises(WireError, match="group_id is null"):
        decode(HeartbeatRequest, 0, b"\xff\xff" + bytes(20))
    with pytest.raises(WireError, match="group_id is null"):
        decode(HeartbeatRequest, 4, bytes(20))
    partition = bytearray(encode_bytes(PartitionRecord(), 0))
    assert partition[20:24] == b"\1\1\1\1"  # replicas, isr, removing, adding
    partition[20] = 0
    with pytest.raises(WireError, match="replicas is null"):
        decode(PartitionRecord, 0, partition)


@pytest.mark.parametrize("value", [None, 3, b"bytes", "\ud800", "x" * 32768])
def test_a_value_that_does_not_fit_its_field_is_a_wire_error(value: object) -> None:
    for version in (3, 4):
        with pytest.raises(WireError):
            encode(HeartbeatRequest(group_id=value), version)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [None, "1", 1 << 31])
def test_a_number_that_does_not_fit_its_field_is_a_wire_error(value: object) -> None:
    with pytest.raises(WireError):
        encode(HeartbeatRequest(generation_id=value), 0)  # type: ignore[arg-type]


def test_the_longest_string_fits_and_a_longer_one_does_not() -> None:
    request = HeartbeatRequest(group_id="x" * 32767)
    for version in (0, 4):
        assert decode(HeartbeatRequest, version, encode_bytes(request, version)) == request
    prefix = b"\x81\x80\x02"  # 32768 bytes, and one more as compact lengths are
    with pytest.raises(WireError, match="too long"):
        decode(HeartbeatRequest, 4, prefix + b"x" * 40_000)


def test_text_that_is_not_utf8_is_a_wire_error() -> None:
    for version, prefix in ((0, b"\0\2"), (4, b"\3")):
        with pytest.raises(WireError, match="UTF-8"):
            decode(HeartbeatRequest, version, prefix + b"\xff\xfe" + bytes(20))
    with pytest.raises(WireError, match="UTF-8"):
        decode(ProduceRequest, 3, b"\0\1\xff" + bytes(20))


@pytest.mark.parametrize("count", [b"\x7f\xff\xff\xff", b"\x00\x00\x00\x05"])
def test_a_count_that_the_bytes_cannot_hold_is_refused(count: bytes) -> None:
    with pytest.raises(WireError, match="topics has more elements"):
        decode(MetadataRequest, 0, count + bytes(8))


@pytest.mark.parametrize(
    "length", [b"\x80", b"\xff" * 4, b"\xff" * 4 + b"\x0f", b"\xff" * 4 + b"\x10", b"\xff" * 9 + b"\1"]
)
def test_a_varint_that_is_cut_short_or_too_long_is_refused(length: bytes) -> None:
    with pytest.raises(WireError):
        decode(MetadataRequest, 9, length)


@pytest.mark.parametrize("size", [127, 128, 16383, 16384, 2097151, 2097152])
def test_lengths_of_one_to_four_bytes(size: int) -> None:
    request = ProduceRequest(topic_data=[TopicProduceData(partition_data=[PartitionProduceData(records=bytes(size))])])
    assert decode(ProduceRequest, 9, encode_bytes(request, 9)) == request


@pytest.mark.parametrize("version", [7, 12])
def test_an_array_of_numbers_has_at_most_a_million(version: int) -> None:
    partitions = [0] * 1_000_000
    request = FetchRequest(forgotten_topics_data=[ForgottenTopic(topic="t", partitions=partitions)])
    assert decode(FetchRequest, version, encode_bytes(request, version)) == request
    partitions.append(0)
    with pytest.raises(WireError, match="partitions has more than 1000000 elements"):
        decode(FetchRequest, version, encode_bytes(request, version))


def test_a_topic_of_many_partitions_has_a_long_array_of_numbers() -> None:
    for count in (126, 127, 5000):
        record = PartitionChangeRecord(isr=list(range(count)))
        encoded = encode_bytes(record, 2)
        assert decode(PartitionChangeRecord, 2, encoded) == record
        with pytest.raises(WireError):
            decode(PartitionChangeRecord, 2, encoded[:-1])


def test_unknown_tagged_fields_are_kept_and_written_in_order() -> None:
    request = ApiVersionsRequest(client_software_name="x", unknown_tagged_fields={900: b"later", 7: b""})
    encoded = encode_bytes(request, 3)
    assert encoded.endswith(b"\x02\x07\x00\x84\x07\x05later")
    decoded = decode(ApiVersionsRequest, 3, encoded)
    assert decoded.unknown_tagged_fields == {7: b"", 900: b"later"}
    assert encode_bytes(decoded, 3) == encoded


def test_unknown_and_known_tagged_fields_live_side_by_side() -> None:
    request = FetchRequest(cluster_id="cluster", unknown_tagged_fields={5: b"five"})
    decoded = decode(FetchRequest, 12, encode_bytes(request, 12))
    assert decoded == request
    with pytest.raises(WireError, match="tag 0 comes twice"):
        encode(FetchRequest(cluster_id="cluster", unknown_tagged_fields={0: b"x"}), 12)


def test_unknown_tagged_fields_need_a_flexible_version() -> None:
    with pytest.raises(UnsupportedVersion, match="unknown_tagged_fields"):
        encode(HeartbeatRequest(unknown_tagged_fields={1: b""}), 3)


def test_more_than_127_tags() -> None:
    tags = dict.fromkeys(range(2, 300), b"")
    for cls, version in ((ApiVersionsRequest, 3), (FetchRequest, 12)):
        message = cls(unknown_tagged_fields=tags)
        assert decode(cls, version, encode_bytes(message, version)) == message


@pytest.mark.parametrize("cls", [ApiVersionsRequest, FetchRequest])
def test_broken_tags_are_refused(cls: type[Message]) -> None:
    version = schema(cls).last_version
    encoded = encode_bytes(cls(), version)
    assert encoded[-1] == 0
    for tags in (b"\2\7\0\7\0", b"\1\7\x09ab", b"\1\7", b"\1", b"\xff\xff\xff\x7f", b"\x80"):
        with pytest.raises(WireError):
            decode(cls, version, encoded[:-1] + tags)
    with pytest.raises(WireError):
        decode(FetchRequest, 12, encode_bytes(FetchRequest(), 12)[:-1] + b"\1\0\7\3ab" + bytes(9))


def test_a_null_struct_is_one_byte() -> None:
    response = ConsumerGroupHeartbeatResponse(assignment=None)
    encoded = encode_bytes(response, 0)
    assert encoded.endswith(b"\xff\0")
    assert decode(ConsumerGroupHeartbeatResponse, 0, encoded).assignment is None


def test_a_null_struct_among_the_tagged_fields_is_not_its_default() -> None:
    """What Kafka writes for a member of the consumer protocol: tag 0, one byte, zero."""
    record = ConsumerGroupMemberMetadataValue(classic_member_metadata=None)
    encoded = encode_bytes(record, 0)
    assert encoded.endswith(b"\1\0\1\0")
    assert decode(ConsumerGroupMemberMetadataValue, 0, encoded) == record
    assert encode_bytes(ConsumerGroupMemberMetadataValue(), 0).endswith(b"\0")
    assert ConsumerGroupMemberMetadataValue().classic_member_metadata == ClassicMemberMetadata()


def test_an_absent_tagged_struct_is_none() -> None:
    response = FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData()])])
    assert decode(FetchResponse, 12, encode_bytes(response, 12)).responses[0].partitions[0].diverging_epoch is None
    response.responses[0].partitions[0].diverging_epoch = EpochEndOffset(epoch=3, end_offset=9)
    assert decode(FetchResponse, 12, encode_bytes(response, 12)) == response
    with pytest.raises(UnsupportedVersion, match=r"PartitionData\.diverging_epoch"):
        encode(response, 11)


def test_constructors_take_keywords_and_give_every_object_its_own_lists() -> None:
    first, second = MetadataRequest(), MetadataRequest()
    assert first.topics == [] and first.topics is not second.topics
    assert first.allow_auto_topic_creation is True
    with pytest.raises(TypeError):
        MetadataRequest(nonsense=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        MetadataRequest([])  # type: ignore[call-arg, arg-type]
    with pytest.raises(AttributeError):
        first.nonsense = 1  # type: ignore[attr-defined]


def test_messages_compare_by_their_fields_and_show_what_is_not_default() -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")], include_topic_authorized_operations=True)
    assert request == copy.deepcopy(request) == pickle.loads(pickle.dumps(request)) == copy.copy(request)
    assert request != MetadataRequest() and request != MetadataRequest(unknown_tagged_fields={1: b""})
    assert request != "request"
    assert repr(request) == (
        "MetadataRequest(topics=[MetadataRequestTopic(name='t')], include_topic_authorized_operations=True)"
    )
    assert eval(repr(request)) == request
    assert repr(MetadataRequest(unknown_tagged_fields={1: b"x"})) == "MetadataRequest(unknown_tagged_fields={1: b'x'})"
    assert repr(PartitionData(records=memoryview(b"ab"))) == "PartitionData(records=b'ab')"
    with pytest.raises(TypeError):
        hash(request)


def test_the_shared_empty_tags_cannot_be_filled() -> None:
    with pytest.raises(TypeError):
        MetadataRequest().unknown_tagged_fields[1] = b""
    assert MetadataRequest().unknown_tagged_fields == {}


def test_a_schema_tells_what_was_declared() -> None:
    declared = schema(OffsetFetchRequest)
    assert (declared.api_key, declared.versions, declared.first_flexible_version) == (9, (1, 10), 6)
    assert (declared.first_version, declared.last_version) == (1, 10)
    assert [declared.is_flexible(version) for version in (5, 6)] == [False, True]
    assert [field.name for field in declared.fields] == ["group_id", "topics", "groups", "require_stable"]
    groups = declared.fields[2]
    assert [groups.is_in(version) for version in (7, 8, 10)] == [False, True, True]
    topics = declared.fields[1]
    assert [topics.is_nullable_in(version) for version in (1, 2, 7)] == [False, True, True]


def test_regex_subscription_of_a_newer_version() -> None:
    with pytest.raises(UnsupportedVersion):
        encode(ConsumerGroupHeartbeatRequest(subscribed_topic_regex="a.*"), 0)
    request = ConsumerGroupHeartbeatRequest(subscribed_topic_regex="a.*")
    assert decode(ConsumerGroupHeartbeatRequest, 1, encode_bytes(request, 1)) == request
