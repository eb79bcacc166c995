"""Which level of each feature the cluster has agreed on: UpdateFeatures."""

from __future__ import annotations

from ottla.cluster import features
from ottla.cluster.features import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    FEATURE_DEPENDENCIES,
    KRAFT_VERSION,
    METADATA_VERSION,
    SUPPORTED_FEATURES,
    FeatureRange,
)
from ottla.cluster.image import BROKER_RESOURCE
from ottla.controller.view import View
from ottla.machine import Decision
from ottla.wire import Message
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.records.config_record import ConfigRecord
from ottla.wire.messages.records.feature_level_record import FeatureLevelRecord
from ottla.wire.messages.update_features import UpdatableFeatureResult, UpdateFeaturesRequest, UpdateFeaturesResponse

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
MIN_INSYNC_REPLICAS = "min.insync.replicas"


def update_features(view: View, request: UpdateFeaturesRequest, kraft_version: int) -> Decision[UpdateFeaturesResponse]:
    """Raise or lower levels, all of them or none. `kraft.version` is only checked here: the quorum writes it."""
    finalized = {**view.image.features, KRAFT_VERSION: kraft_version}
    wanted = {update.feature: update.max_version_level for update in request.feature_updates}
    records: list[Message] = []
    try:
        if len(wanted) != len(request.feature_updates):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "A feature is named twice in the request.")
        for update in request.feature_updates:
            kind = update.upgrade_type
            if update.allow_downgrade:  # version 0 knew only this flag
                kind = SAFE_DOWNGRADE
            _check(view, update.feature, update.max_version_level, kind, finalized, {**finalized, **wanted})
            if update.feature != KRAFT_VERSION:
                records.append(FeatureLevelRecord(name=update.feature, feature_level=update.max_version_level))
            if update.feature == ELIGIBLE_LEADER_REPLICAS_VERSION and update.max_version_level >= 1:
                records += min_insync_replicas_records(view)
    except KafkaError as error:
        reason = f"The update failed for all features since the following feature had an error: {error.message}"
        return Decision([], UpdateFeaturesResponse(error_code=error.code, error_message=reason))
    results = [UpdatableFeatureResult(feature=name, error_code=0, error_message="NONE") for name in wanted]
    response = UpdateFeaturesResponse(error_code=ErrorCode.NONE, error_message=None, results=results)
    return Decision([] if request.validate_only else records, response)


def min_insync_replicas_records(view: View) -> list[Message]:
    """With eligible leader replicas all brokers must use the same `min.insync.replicas`, or they would disagree on
    which replicas are eligible: it is written for the cluster, and settings of single brokers are removed.
    """
    records: list[Message] = []
    for (kind, name), configs in view.image.configs.items():
        if kind == BROKER_RESOURCE and name and MIN_INSYNC_REPLICAS in configs:
            records.append(ConfigRecord(resource_type=kind, resource_name=name, name=MIN_INSYNC_REPLICAS, value=None))
    if MIN_INSYNC_REPLICAS not in view.image.configs.get((BROKER_RESOURCE, ""), {}):
        value = str(view.static_config.min_insync_replicas)
        records.append(
            ConfigRecord(resource_type=BROKER_RESOURCE, resource_name="", name=MIN_INSYNC_REPLICAS, value=value)
        )
    return records


def _check(view: View, name: str, level: int, kind: int, finalized: dict[str, int], proposed: dict[str, int]) -> None:
    if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        raise _invalid(name, level, "The controller does not support the given upgrade type.")
    if level < 0:
        raise _invalid(name, level, "A feature version cannot be less than 0.")
    reason = _why_unsupported(view, name, level)
    if reason is not None:
        raise _invalid(name, level, reason)
    current = view.metadata_version if name == METADATA_VERSION else finalized.get(name, 0)
    if level < current and kind == UPGRADE:
        raise _invalid(
            name,
            level,
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade.",
        )
    if level > current and kind != UPGRADE:
        raise _invalid(name, level, "Can't downgrade to a newer version.")
    if name == METADATA_VERSION:
        if level < current and features.has_metadata_changed(current, level):
            reason = "Refusing to perform the requested downgrade because it might delete metadata information."
            if kind == UNSAFE_DOWNGRADE:
                reason = "Unsafe metadata downgrade is not supported in this version."
            raise KafkaError(
                ErrorCode.INVALID_UPDATE_VERSION,
                f"Unsupported metadata.version downgrade from {current} to {level}. {reason}",
            )
        for other, other_level in proposed.items():
            needed = FEATURE_DEPENDENCIES.get((other, other_level), {}).get(METADATA_VERSION, 0)
            if level < needed:
                raise _invalid(name, level, f"{other} {other_level} needs metadata.version {needed}.")
    elif name == KRAFT_VERSION:
        if level < current:
            raise _invalid(name, level, "Can't downgrade the version of this feature.")
    else:
        for needed_feature, needed in FEATURE_DEPENDENCIES.get((name, level), {}).items():
            if proposed.get(needed_feature, 0) < needed:
                raise _invalid(name, level, f"It needs {needed_feature} {needed} or higher.")


def _why_unsupported(view: View, name: str, level: int) -> str | None:
    here = SUPPORTED_FEATURES.get(name)
    if here is None:
        return f"Local controller {view.config.node_id} does not support this feature."
    nodes: list[tuple[str, FeatureRange]] = [(f"Local controller {view.config.node_id}", here)]
    nodes += [
        (f"Broker {broker.id}", broker.features.get(name, FeatureRange(0, 0))) for broker in view.image.brokers.values()
    ]
    nodes += [
        (f"Controller {controller.id}", controller.features.get(name, FeatureRange(0, 0)))
        for controller in view.image.controllers.values()
        if controller.id != view.config.node_id
    ]
    for node, levels in nodes:
        if level not in levels and (level or levels.min_level):
            return f"{node} only supports versions {levels.min_level}-{levels.max_level}"
    return None


def _invalid(name: str, level: int, reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_UPDATE_VERSION, f"Invalid update version {level} for feature {name}. {reason}")
