"""Voters in control records."""

from __future__ import annotations

from ottla.raft import Voter, Voters
from ottla.wire import decode, encode_bytes
from ottla.wire.messages.records.leader_change_message import LeaderChangeMessage
from ottla.wire.messages.records.voters_record import VotersRecord


def test_leader_change_of_static_voters_is_byte_for_byte_what_kafka_writes() -> None:
    message = Voters.static(1).leader_change(1, [1])
    assert encode_bytes(message, message.version).hex() == "00000000000102000000010002000000010000"


def test_leader_change_of_dynamic_voters_names_their_directories() -> None:
    voters = Voters(1, {1: Voter(1, b"d" * 16, (("CONTROLLER", "127.0.0.1", 9093),), (0, 1))})
    message = voters.leader_change(1, [1])
    decoded = decode(LeaderChangeMessage, 1, memoryview(encode_bytes(message, 1)))
    assert decoded.version == 1
    assert decoded.voters[0].voter_directory_id == b"d" * 16


def test_voters_survive_their_record() -> None:
    voters = Voters(1, {id: Voter(id, bytes([id] * 16), (("C", "host", id),), (0, 1)) for id in (1, 2, 3)})
    record = decode(VotersRecord, 0, memoryview(encode_bytes(voters.to_record(), 0)))
    assert Voters.from_record(record) == voters
    assert voters.majority == 2
