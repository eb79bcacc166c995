"""Feature levels."""

from __future__ import annotations

import pytest

from ottla.cluster.features import FORMATTED_FEATURES, RELEASE_LEVELS, release_level, release_metadata_version
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.records.config_record import ConfigRecord
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

from .clusters import Cluster

UPGRADE, SAFE, UNSAFE = 1, 2, 3


def update(cluster: Cluster, *updates: tuple[str, int, int], validate_only: bool = False) -> int:
    request = UpdateFeaturesRequest(
        feature_updates=[
            FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind) for name, level, kind in updates
        ],
        validate_only=validate_only,
    )
    return cluster.commit(cluster.controller.update_features(request)).error_code


@pytest.mark.parametrize(
    ("name", "level", "kind", "code"),
    [
        ("metadata.version", 30, UPGRADE, ErrorCode.NONE),
        ("metadata.version", 33, UPGRADE, ErrorCode.NONE),
        ("metadata.version", 34, UPGRADE, ErrorCode.INVALID_UPDATE_VERSION),
        ("share.version", 2, UPGRADE, ErrorCode.NONE),
        ("metadata.version", 29, UPGRADE, ErrorCode.INVALID_UPDATE_VERSION),
        ("metadata.version", 29, SAFE, ErrorCode.INVALID_UPDATE_VERSION),
        ("metadata.version", 29, UNSAFE, ErrorCode.INVALID_UPDATE_VERSION),
        ("metadata.version", 6, UNSAFE, ErrorCode.INVALID_UPDATE_VERSION),
        ("transaction.version", 1, SAFE, ErrorCode.NONE),
        ("transaction.version", 1, UPGRADE, ErrorCode.INVALID_UPDATE_VERSION),
        ("transaction.version", 3, UPGRADE, ErrorCode.INVALID_UPDATE_VERSION),
        ("transaction.version", -1, SAFE, ErrorCode.INVALID_UPDATE_VERSION),
        ("transaction.version", 2, 0, ErrorCode.INVALID_UPDATE_VERSION),
        ("group.version", 0, SAFE, ErrorCode.NONE),
        ("kraft.version", 0, UPGRADE, ErrorCode.NONE),
        ("kraft.version", 1, UPGRADE, ErrorCode.NONE),
        ("kraft.version", 2, UPGRADE, ErrorCode.INVALID_UPDATE_VERSION),
        ("nope", 1, UPGRADE, ErrorCode.INVALID_UPDATE_VERSION),
    ],
)
def test_levels_are_checked(name: str, level: int, kind: int, code: ErrorCode) -> None:
    cluster = Cluster(1)
    assert update(cluster, (name, level, kind)) == code
    if code is ErrorCode.NONE and name != "kraft.version":
        assert cluster.image.features.get(name, 0) == level


def test_dynamic_voters_stay_dynamic() -> None:
    request = UpdateFeaturesRequest(
        feature_updates=[FeatureUpdateKey(feature="kraft.version", max_version_level=0, upgrade_type=SAFE)]
    )
    reply = Cluster(1).controller.update_features(request, kraft_version=1).reply
    assert reply.error_code == ErrorCode.INVALID_UPDATE_VERSION


def test_all_or_none() -> None:
    cluster = Cluster(1)
    assert update(cluster, ("share.version", 0, SAFE), ("nope", 1, UPGRADE)) == ErrorCode.INVALID_UPDATE_VERSION
    assert cluster.image.features["share.version"] == 1


def test_a_downgrade_that_changes_no_record_is_safe() -> None:
    cluster = Cluster(1, levels={"metadata": 29})
    assert update(cluster, ("metadata.version", 26, SAFE)) == ErrorCode.NONE
    assert cluster.image.metadata_version == 26


def test_eligible_leader_replicas_need_their_metadata_version() -> None:
    cluster = Cluster(1, levels={"metadata": 22, "elr": 0})
    elr = ("eligible.leader.replicas.version", 1, UPGRADE)
    assert update(cluster, elr) == ErrorCode.INVALID_UPDATE_VERSION
    assert update(cluster, ("metadata.version", 30, UPGRADE), elr) == ErrorCode.NONE
    assert cluster.image.configs[4, ""] == {"min.insync.replicas": "1"}


def test_eligible_leader_replicas_need_one_min_insync_replicas_for_all_brokers() -> None:
    cluster = Cluster(1, levels={"elr": 0}, min_insync_replicas="2")
    cluster.controller.replay(ConfigRecord(resource_type=4, resource_name="1", name="min.insync.replicas", value="1"))
    assert update(cluster, ("eligible.leader.replicas.version", 1, UPGRADE)) == ErrorCode.NONE
    assert cluster.image.configs == {(4, ""): {"min.insync.replicas": "2"}}


@pytest.mark.parametrize(("level", "code"), [(31, ErrorCode.NONE), (32, ErrorCode.INVALID_UPDATE_VERSION)])
def test_kafka_4_4_changed_records_with_its_second_level(level: int, code: ErrorCode) -> None:
    cluster = Cluster(1, levels={"metadata": level})
    assert update(cluster, ("metadata.version", 30, SAFE)) == code


def test_a_release_has_levels_of_all_features() -> None:
    assert release_metadata_version("4.4") == release_metadata_version("4.4-IV2") == 33
    assert release_metadata_version("4.3") == FORMATTED_FEATURES["metadata.version"] == 30
    assert release_metadata_version("4.5") is None
    assert {name: release_level(name, 30) for name in RELEASE_LEVELS if name != "kraft.version"} == {
        name: level for name, level in FORMATTED_FEATURES.items() if name != "metadata.version"
    }
    assert release_level("share.version", 33) == 2


def test_validate_only_decides_nothing() -> None:
    cluster = Cluster(1)
    assert update(cluster, ("share.version", 0, SAFE), validate_only=True) == ErrorCode.NONE
    assert cluster.image.features["share.version"] == 1
