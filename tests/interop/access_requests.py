"""One request for each API that asks for permissions, and the users that send it.

Requests are nested dicts in Kafka's field names. They name things twice where they can: things whose names begin with
`seen`, on which users have their permissions, and things whose names begin with `hidden`, on which no user has any;
each as one that exists and one that does not. What is allowed must not change the next answer, so requests that would
change something are refused for another reason, or only validated.

`{seen}` stands for the id of this topic.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ottla.records import Record, build
from ottla.wire import Message
from ottla.wire.acls import CLUSTER_RESOURCE_NAME, AclOperation, AclResource, PatternType
from ottla.wire.apis import APIS, request_class

TOPICS = {"seen": 2, "hidden": 1, "hidden-doomed": 1}
DOOMED = "hidden-doomed"
"""Users that may delete it do: those are the last to ask, and DeleteTopics comes last."""
NAMES = ("seen", "hidden", "seen-absent", "hidden-absent")
SEEN_ID, HIDDEN_ID, DOOMED_ID = "{seen}", "{hidden}", "{hidden-doomed}"
UNKNOWN_ID = b"\7" * 16
SHARER = "BwcHBwcHBwcHBwcHBwcHBw"
STRANGER = 3_000
"""The id of no broker and no controller."""

_OPERATIONS = {
    AclResource.TOPIC: "READ WRITE CREATE DELETE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS ALL",
    AclResource.GROUP: "READ DELETE DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS ALL",
    AclResource.TRANSACTIONAL_ID: "WRITE DESCRIBE TWO_PHASE_COMMIT ALL",
    AclResource.CLUSTER: "CREATE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE ALL",
}
_COMBINED = {
    "reader": "READ TOPIC, READ GROUP",
    "describer": "DESCRIBE TOPIC, DESCRIBE GROUP, DESCRIBE TRANSACTIONAL_ID",
    "transactional": "WRITE TOPIC, READ TOPIC, READ GROUP, WRITE TRANSACTIONAL_ID",
    "transactional-producer": "WRITE TOPIC, WRITE TRANSACTIONAL_ID",
    "transactional-committer": "READ GROUP, WRITE TRANSACTIONAL_ID",
    "creator": "DESCRIBE TOPIC, CREATE TOPIC",
    "cluster-creator": "DESCRIBE TOPIC, CREATE CLUSTER",
    "deleter": "DELETE TOPIC, DELETE GROUP, READ TOPIC",
    "subscriber": "READ GROUP, DESCRIBE TOPIC",
    "group-describer": "DESCRIBE GROUP, DESCRIBE TOPIC",
}
NOBODY, SUPER_USER, MAY_DELETE = "nobody", "root", "all-cluster"

Grant = tuple[AclOperation, AclResource]


def users() -> dict[str, list[Grant]]:
    """Users and what each of them may do: nothing, one operation on one type of resource, or a few together."""
    found: dict[str, list[Grant]] = {NOBODY: []}
    for resource, operations in _OPERATIONS.items():
        for operation in operations.split():
            name = f"{operation}-{resource.name}".lower().replace("_", "-")
            found[name] = [(AclOperation[operation], resource)]
    for name, grants in _COMBINED.items():
        pairs = [grant.split() for grant in grants.split(", ")]
        found[name] = [(AclOperation[operation], AclResource[resource]) for operation, resource in pairs]
    return {**found, MAY_DELETE: found.pop(MAY_DELETE), SUPER_USER: []}


def creations() -> list[dict[str, Any]]:
    """The ACLs of all users, for CreateAcls."""
    return [
        {
            "resource_type": resource,
            "resource_name": CLUSTER_RESOURCE_NAME if resource == AclResource.CLUSTER else "seen",
            "resource_pattern_type": (PatternType.LITERAL if resource == AclResource.CLUSTER else PatternType.PREFIXED),
            "principal": f"User:{name}",
            "host": "*",
            "operation": operation,
            "permission_type": 3,
        }
        for name, grants in users().items()
        for operation, resource in grants
    ]


class Case(NamedTuple):
    """A request in one version of its API, sent through a listener of brokers or of controllers."""

    api: str
    version: int
    fields: dict[str, Any]
    role: str = "broker"
    label: str = ""

    @property
    def key(self) -> int:
        return next(key for key, info in APIS.items() if info.name == self.api)

    @property
    def name(self) -> str:
        label = f" {self.label}" if self.label else ""
        return f"{self.api} v{self.version}{label}{' to a controller' if self.role == 'controller' else ''}"

    def request(self, topic_ids: dict[str, bytes]) -> Message:
        made = _made(request_class(self.key), self.fields, topic_ids)
        assert isinstance(made, Message)
        return made


def _made(cls: Any, fields: dict[str, Any], topic_ids: dict[str, bytes]) -> Any:
    declared = {field.name: field for field in cls.__schema__.fields}
    values = {}
    for name, value in fields.items():
        field = declared[name]
        if value in (SEEN_ID, HIDDEN_ID, DOOMED_ID):
            value = topic_ids[value.strip("{}")]
        elif field.struct is not None and field.is_array and value is not None:
            value = [_made(field.struct, each, topic_ids) for each in value]
        elif field.struct is not None and value is not None:
            value = _made(field.struct, value, topic_ids)
        values[name] = value
    return cls(**values)


def batch(*, is_transactional: bool = False) -> bytes:
    producer: dict[str, Any] = {}
    if is_transactional:
        producer = {"producer_id": 77, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    return bytes(build([Record(0, 1_700_000_000_000, b"k", b"v", ())], **producer))


def _topics(row: dict[str, Any] | int | None, *, name: str = "name", rows: str = "partitions") -> list[dict[str, Any]]:
    return [{name: topic} if row is None else {name: topic, rows: [row]} for topic in NAMES]


def _topics_by_id(row: Any, rows: str = "partitions") -> list[dict[str, Any]]:
    return [{"topic_id": topic_id, rows: [row]} for topic_id in (SEEN_ID, HIDDEN_ID, UNKNOWN_ID)]


def cases() -> Iterator[Case]:
    yield from _topic_cases()
    yield from _group_cases()
    yield from _share_cases()
    yield from _streams_cases()
    yield from _transaction_cases()
    yield from _admin_cases()
    yield from _config_cases()
    yield from _controller_cases()
    yield from _deletion_cases()


def _topic_cases() -> Iterator[Case]:
    data = {"index": 0, "records": batch()}
    in_transaction = {"index": 0, "records": batch(is_transactional=True)}
    produce = {"acks": 1, "timeout_ms": 1_000}
    yield Case("Produce", 9, {**produce, "topic_data": _topics(data, rows="partition_data")})
    yield Case("Produce", 13, {**produce, "topic_data": _topics_by_id(data, "partition_data")})
    for transactional_id in ("seen", "hidden"):
        fields = {"transactional_id": transactional_id, "topic_data": _topics(in_transaction, rows="partition_data")}
        yield Case("Produce", 9, {**produce, **fields}, label=f"in a transaction of {transactional_id}")
    wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000}
    yield Case("Fetch", 12, {"max_wait_ms": 0, "topics": _topics(wanted, name="topic"), "session_epoch": -1})
    yield Case("Fetch", 17, {"max_wait_ms": 0, "topics": _topics_by_id(wanted), "session_epoch": -1})
    follower = {"max_wait_ms": 0, "topics": _topics_by_id(wanted), "session_epoch": -1}
    yield Case(
        "Fetch", 17, {**follower, "replica_state": {"replica_id": STRANGER, "replica_epoch": 1}}, label="of a follower"
    )
    yield Case("ListOffsets", 10, {"replica_id": -1, "topics": _topics({"partition_index": 0, "timestamp": -1})})
    epoch = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
    yield Case("OffsetForLeaderEpoch", 4, {"replica_id": -1, "topics": _topics(epoch, name="topic")})
    operations = {"include_topic_authorized_operations": True}
    yield Case("Metadata", 12, {"topics": None, **operations}, label="of all topics")
    yield Case("Metadata", 12, {"topics": _topics(None), "allow_auto_topic_creation": False, **operations})
    ids = [{"topic_id": topic_id, "name": None} for topic_id in (SEEN_ID, HIDDEN_ID, UNKNOWN_ID)]
    yield Case("Metadata", 12, {"topics": ids, "allow_auto_topic_creation": False, **operations}, label="by id")
    yield Case("Metadata", 9, {"topics": [], "include_cluster_authorized_operations": True}, label="of the cluster")
    # a name that no topic can have: the permission to create it is looked for before
    creating = {"topics": [{"name": "seen-new!"}], "allow_auto_topic_creation": True}
    yield Case("Metadata", 4, creating, label="creating")
    yield Case("DescribeTopicPartitions", 0, {"topics": _topics(None), "response_partition_limit": 10})
    yield Case("DescribeTopicPartitions", 0, {"topics": [], "response_partition_limit": 10}, label="of all topics")
    yield Case("DescribeProducers", 0, {"topics": _topics(0, rows="partition_indexes")})
    yield Case("DeleteRecords", 2, {"topics": _topics({"partition_index": 0, "offset": 0}), "timeout_ms": 1_000})
    new = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in NAMES]
    yield Case("CreateTopics", 7, {"topics": new, "validate_only": True, "timeout_ms": 1_000})
    more = [{"name": name, "count": 5, "assignments": None} for name in NAMES]
    yield Case("CreatePartitions", 3, {"topics": more, "validate_only": True, "timeout_ms": 1_000})


def _group_cases() -> Iterator[Case]:
    row = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    for group in ("seen", "hidden"):
        yield Case("OffsetCommit", 9, {"group_id": group, "topics": _topics(row)}, label=f"of {group}")
    yield Case("OffsetCommit", 10, {"group_id": "seen", "topics": _topics_by_id(row)})
    named = _topics(0, rows="partition_indexes")
    yield Case("OffsetFetch", 7, {"group_id": "seen", "topics": named}, label="of one group")
    yield Case("OffsetFetch", 7, {"group_id": "seen", "topics": None}, label="of all topics")
    both = [{"group_id": group, "topics": named} for group in ("seen", "hidden")]
    yield Case("OffsetFetch", 9, {"groups": both})
    by_id = [{"group_id": "seen", "topics": _topics_by_id(0, "partition_indexes")}]
    yield Case("OffsetFetch", 10, {"groups": by_id})
    yield Case("OffsetFetch", 10, {"groups": [{"group_id": "seen", "topics": None}]}, label="of all topics")
    partitions = _topics({"partition_index": 1})
    for group in ("seen", "hidden"):
        yield Case("OffsetDelete", 0, {"group_id": group, "topics": partitions}, label=f"of {group}")
    for kind, label in enumerate(("group", "transaction")):
        keys = ["seen", "hidden"]
        yield Case("FindCoordinator", 6, {"key_type": kind, "coordinator_keys": keys}, label=f"of a {label}")
        yield Case("FindCoordinator", 3, {"key_type": kind, "key": "hidden"}, label=f"of a hidden {label}")
    for group in ("seen", "hidden"):
        member = {"group_id": group, "member_id": "stranger"}
        join = {"session_timeout_ms": 1, "protocol_type": "consumer", "protocols": [{"name": "range"}]}
        yield Case("JoinGroup", 9, {**member, **join}, label=f"of {group}")
        yield Case("Heartbeat", 4, {**member, "generation_id": 1}, label=f"of {group}")
        yield Case("LeaveGroup", 5, {"group_id": group, "members": [{"member_id": "stranger"}]}, label=f"of {group}")
        sync = {"generation_id": 1, "protocol_type": "consumer", "protocol_name": "range"}
        yield Case("SyncGroup", 5, {**member, **sync}, label=f"of {group}")
    groups = ["seen", "hidden", "seen-absent", "hidden-absent"]
    yield Case("DescribeGroups", 6, {"groups": groups, "include_authorized_operations": True})
    yield Case("ListGroups", 5, {})
    yield Case("DeleteGroups", 2, {"groups_names": ["hidden", "seen-absent", "hidden-absent"]})
    consumers = ["seen-consumers", "seen-of-hidden", "hidden-consumers", "seen-absent"]
    yield Case("ConsumerGroupDescribe", 1, {"group_ids": consumers, "include_authorized_operations": True})
    beat = {"member_id": "stranger", "member_epoch": 5}
    for group in ("seen-consumers", "hidden-consumers"):
        yield Case("ConsumerGroupHeartbeat", 1, {"group_id": group, **beat}, label=f"of {group}")
    for topics in (["seen"], ["seen", "hidden"]):
        fields = {"group_id": "seen-consumers", **beat, "subscribed_topic_names": topics}
        yield Case("ConsumerGroupHeartbeat", 1, fields, label=f"for {' and '.join(topics)}")


def _share_cases() -> Iterator[Case]:
    beat = {"member_id": SHARER, "member_epoch": 5}
    for group in ("seen-sharers", "hidden-sharers"):
        yield Case("ShareGroupHeartbeat", 1, {"group_id": group, **beat}, label=f"of {group}")
    for topics in (["seen"], ["seen", "hidden"]):
        fields = {"group_id": "seen-sharers", **beat, "subscribed_topic_names": topics}
        yield Case("ShareGroupHeartbeat", 1, fields, label=f"for {' and '.join(topics)}")
    sharers = ["seen-sharers", "seen-sharers-of-hidden", "hidden-sharers", "seen-absent"]
    yield Case("ShareGroupDescribe", 1, {"group_ids": sharers, "include_authorized_operations": True})
    for group in ("seen-sharers", "hidden-sharers"):
        member = {"group_id": group, "member_id": SHARER}
        limits = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1_000, "max_records": 1, "batch_size": 1}
        # Of a partition that is there the answer depends on what others hold; an unknown id Kafka 4.3.1 answers with
        # UNKNOWN_SERVER_ERROR.
        absent = _topics_by_id({"partition_index": 9})[:2]
        yield Case(
            "ShareFetch", 1, {**member, "share_session_epoch": 0, **limits, "topics": absent}, label=f"of {group}"
        )
        done = {"first_offset": 0, "last_offset": 0, "acknowledge_types": [1]}
        rows = _topics_by_id({"partition_index": 9, "acknowledgement_batches": [done]})[:2]
        fields = {**member, "share_session_epoch": 1, "topics": rows}
        yield Case("ShareAcknowledge", 1, fields, label=f"of {group}")
    asked = _topics(0)
    both = [{"group_id": group, "topics": [{"topic_name": one["name"], "partitions": [0]} for one in asked]}
            for group in ("seen-sharers", "hidden-sharers")]  # fmt: skip
    yield Case("DescribeShareGroupOffsets", 0, {"groups": both})
    whole = [{"group_id": group, "topics": None} for group in ("seen-sharers-of-hidden", "hidden-sharers")]
    yield Case("DescribeShareGroupOffsets", 0, {"groups": whole}, label="of all topics")
    for group in ("seen-sharers", "hidden-sharers"):  # both have members, so nothing is changed
        start = [{"topic_name": name, "partitions": [{"partition_index": 0, "start_offset": 0}]} for name in NAMES]
        yield Case("AlterShareGroupOffsets", 0, {"group_id": group, "topics": start}, label=f"of {group}")
        gone = [{"topic_name": name} for name in NAMES]
        yield Case("DeleteShareGroupOffsets", 0, {"group_id": group, "topics": gone}, label=f"of {group}")
    of_unknown = {"group_id": "seen", "topics": [{"topic_id": UNKNOWN_ID, "partitions": [{"partition": 0}]}]}
    for api in ("InitializeShareGroupState", "ReadShareGroupState", "WriteShareGroupState", "DeleteShareGroupState",
                "ReadShareGroupStateSummary"):  # fmt: skip
        yield Case(api, 0, of_unknown)


def _streams_cases() -> Iterator[Case]:
    beat = {"member_id": "stranger", "member_epoch": 5}
    for group in ("seen-streams", "hidden-streams"):
        yield Case("StreamsGroupHeartbeat", 0, {"group_id": group, **beat}, label=f"of {group}")
    for topics in (["seen"], ["seen", "hidden"]):
        fields = {"group_id": "seen-streams", **beat, "topology": topology(topics)}
        yield Case("StreamsGroupHeartbeat", 0, fields, label=f"for {' and '.join(topics)}")
    groups = ["seen-streams", "seen-streams-of-hidden", "hidden-streams", "seen-absent"]
    yield Case("StreamsGroupDescribe", 0, {"group_ids": groups, "include_authorized_operations": True})


def topology(topics: list[str]) -> dict[str, Any]:
    """Of an application of Kafka Streams that reads these topics."""
    return {"epoch": 0, "subtopologies": [{"subtopology_id": "0", "source_topics": topics}]}


def _transaction_cases() -> Iterator[Case]:
    for transactional_id in ("seen", "hidden"):
        # a producer id without an epoch is refused after the permission was found
        init = {"transactional_id": transactional_id, "producer_id": 5, "producer_epoch": -1}
        yield Case("InitProducerId", 4, {**init, "transaction_timeout_ms": 1_000}, label=f"of {transactional_id}")
        of = {"transactional_id": transactional_id, "producer_id": 1_000_000, "producer_epoch": 0}
        yield Case("EndTxn", 3, of, label=f"of {transactional_id}")
        for group in ("seen", "hidden"):
            label = f"of {transactional_id} and group {group}"
            yield Case("AddOffsetsToTxn", 3, {**of, "group_id": group}, label=label)
            row = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
            commit = {**of, "group_id": group, "topics": _topics(row)}
            yield Case("TxnOffsetCommit", 3, commit, label=label)
        added = _topics(0)
        old = {
            "v3_and_below_transactional_id": transactional_id,
            "v3_and_below_producer_id": 1_000_000,
            "v3_and_below_topics": added,
        }
        yield Case("AddPartitionsToTxn", 3, old, label=f"of {transactional_id}")
        only_seen = {**old, "v3_and_below_topics": [{"name": "seen", "partitions": [0]}]}
        yield Case("AddPartitionsToTxn", 3, only_seen, label=f"of {transactional_id}, one topic")
    yield Case("InitProducerId", 4, {"transactional_id": None, "transaction_timeout_ms": 1_000}, label="idempotent")
    verified = {"transactional_id": "hidden", "producer_id": 1_000_000, "verify_only": True, "topics": _topics(0)}
    yield Case("AddPartitionsToTxn", 5, {"transactions": [verified]}, label="of a broker")
    marker = {"producer_id": 1_000_000, "topics": [{"name": "hidden-absent", "partition_indexes": [0]}]}
    yield Case("WriteTxnMarkers", 1, {"markers": [marker]})
    ids = ["seen", "hidden", "seen-absent", "hidden-absent"]
    yield Case("DescribeTransactions", 0, {"transactional_ids": ids})
    yield Case("ListTransactions", 1, {})


def _admin_cases() -> Iterator[Case]:
    absent = [{"topic": "hidden-absent", "partitions": [0]}]
    yield Case("DescribeLogDirs", 4, {"topics": [{"topic": "seen", "partitions": [0]}]})
    yield Case("DescribeLogDirs", 1, {"topics": absent}, label="without an error of its own")
    dirs = [{"path": "/nowhere", "topics": [{"name": "seen", "partitions": [0]}]}]
    yield Case("AlterReplicaLogDirs", 2, {"dirs": dirs})
    yield Case("ElectLeaders", 2, {"election_type": 0, "topic_partitions": absent, "timeout_ms": 1_000})
    moved = [{"name": "hidden-absent", "partitions": [{"partition_index": 0, "replicas": [1]}]}]
    yield Case("AlterPartitionReassignments", 0, {"topics": moved, "timeout_ms": 1_000})
    yield Case("ListPartitionReassignments", 0, {"topics": None, "timeout_ms": 1_000})
    user = [{"entity_type": "user", "match_type": 0, "match": "seen"}]
    yield Case("DescribeClientQuotas", 1, {"components": user})
    entry = {
        "entity": [{"entity_type": "user", "entity_name": "seen"}],
        "ops": [{"key": "producer_byte_rate", "value": 1.0}],
    }
    yield Case("AlterClientQuotas", 1, {"entries": [entry], "validate_only": True})
    yield Case("DescribeUserScramCredentials", 0, {"users": [{"name": "seen"}]})
    yield Case("AlterUserScramCredentials", 0, {"deletions": [{"name": "seen", "mechanism": 1}]})
    update = [{"feature": "no.such.feature", "max_version_level": 1, "upgrade_type": 1}]
    yield Case("UpdateFeatures", 1, {"feature_updates": update, "validate_only": True, "timeout_ms": 1_000})
    yield Case("DescribeCluster", 1, {"include_cluster_authorized_operations": True, "endpoint_type": 1})
    yield Case("UnregisterBroker", 0, {"broker_id": STRANGER})
    partition = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    yield Case("DescribeQuorum", 1, {"topics": partition})
    yield Case("ListConfigResources", 1, {"resource_types": [2]})
    yield Case("ListConfigResources", 0, {}, label="of client metrics")
    any_acl = {"resource_type_filter": 2, "pattern_type_filter": 3, "operation": 1, "permission_type": 1}
    described = {**any_acl, "resource_name_filter": "no-such", "principal_filter": None, "host_filter": None}
    yield Case("DescribeAcls", 3, described)
    yield Case("DeleteAcls", 3, {"filters": [described]})
    nonsense = {"resource_type": 2, "resource_name": "", "resource_pattern_type": 3, "principal": "User:x", "host": "*"}
    yield Case("CreateAcls", 3, {"creations": [{**nonsense, "operation": 3, "permission_type": 3}]})
    yield Case("ApiVersions", 4, {"client_software_name": "test", "client_software_version": "1"})


def _config_cases() -> Iterator[Case]:
    resources: list[dict[str, Any]] = [
        *({"resource_type": 2, "resource_name": name} for name in NAMES),
        *({"resource_type": 32, "resource_name": name} for name in ("seen", "hidden")),
        {"resource_type": 4, "resource_name": "1"},
        {"resource_type": 4, "resource_name": ""},
        {"resource_type": 8, "resource_name": "1"},
        {"resource_type": 16, "resource_name": "seen"},
    ]
    keys = ["retention.ms", "log.cleaner.threads"]
    asked = [{**resource, "configuration_keys": keys} for resource in resources]
    yield Case("DescribeConfigs", 4, {"resources": asked})
    settings = {
        2: ("retention.ms", "1000"),
        4: ("log.cleaner.threads", "1"),
        16: ("interval.ms", "1000"),
        32: ("consumer.session.timeout.ms", "45000"),
    }
    changed: list[dict[str, Any]] = []
    for resource in resources:
        if resource["resource_type"] in settings:
            name, value = settings[resource["resource_type"]]
            changed.append({**resource, "configs": [{"name": name, "value": value}]})
    yield Case("AlterConfigs", 2, {"resources": changed, "validate_only": True})
    yield Case("IncrementalAlterConfigs", 1, {"resources": changed, "validate_only": True})


def _deletion_cases() -> Iterator[Case]:
    ids = [{"name": None, "topic_id": topic_id} for topic_id in (DOOMED_ID, UNKNOWN_ID)]
    yield Case("DeleteTopics", 6, {"topics": ids, "timeout_ms": 1_000}, label="by id")
    names = [DOOMED, "seen-absent", "hidden-absent"]
    yield Case("DeleteTopics", 5, {"topic_names": names, "timeout_ms": 1_000}, label="by name")
    yield Case("DeleteTopics", 6, {"topics": [{"name": name} for name in names], "timeout_ms": 1_000})


def _controller_cases() -> Iterator[Case]:
    """What brokers and other controllers ask, all of it of another cluster or of a broker that is not there."""
    other = {"cluster_id": "AAAAAAAAAAAAAAAAAAAAAA"}

    def case(api: str, version: int, fields: dict[str, Any]) -> Case:
        return Case(api, version, fields, "controller")

    partition = {"partition_index": 0}
    of_log = [{"topic_name": "__cluster_metadata", "partitions": [partition]}]
    yield case("Vote", 0, {**other, "topics": of_log})
    yield case("BeginQuorumEpoch", 0, {**other, "topics": of_log})
    yield case("EndQuorumEpoch", 0, {**other, "topics": of_log})
    yield case("FetchSnapshot", 0, {**other, "topics": [{"name": "__cluster_metadata", "partitions": [{}]}]})
    wanted = [{"topic_id": b"\0" * 15 + b"\1", "partitions": [{"partition": 0, "partition_max_bytes": 1_000}]}]
    yield case("Fetch", 17, {**other, "max_wait_ms": 0, "topics": wanted})
    yield case("DescribeQuorum", 1, {"topics": of_log})
    stale = {"broker_id": STRANGER, "broker_epoch": 1}
    yield case("AlterPartition", 3, {**stale, "topics": []})
    yield case("BrokerHeartbeat", 1, stale)
    yield case("BrokerRegistration", 4, {"broker_id": STRANGER, **other, "incarnation_id": b"\5" * 16})
    yield case("AllocateProducerIds", 0, stale)
    yield case("AssignReplicasToDirs", 0, {**stale, "directories": []})
    yield case("UnregisterBroker", 0, {"broker_id": STRANGER})
    voter = {**other, "voter_id": STRANGER, "voter_directory_id": b"\5" * 16}
    endpoint = [{"name": "CONTROLLER", "host": "127.0.0.1", "port": 1}]
    yield case("AddRaftVoter", 0, {**voter, "timeout_ms": 1_000, "listeners": endpoint})
    yield case("RemoveRaftVoter", 0, voter)
    yield case("UpdateRaftVoter", 0, {**voter, "listeners": endpoint})
    yield case("DescribeCluster", 1, {"include_cluster_authorized_operations": True, "endpoint_type": 2})
    yield case("CreateTopics", 7, {"topics": [{"name": "hidden"}], "validate_only": True, "timeout_ms": 1_000})
    yield case("ListPartitionReassignments", 0, {"topics": None, "timeout_ms": 1_000})
    yield case("DescribeConfigs", 4, {"resources": [{"resource_type": 4, "resource_name": "1"}]})
