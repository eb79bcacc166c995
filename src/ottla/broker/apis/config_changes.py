"""What a broker checks of changed settings before the controller decides on them.

The controller knows topics, groups and the rules of names; whether settings of a broker can be in force only the broker
itself can say. A resource that is refused here does not reach the controller, the others of the request do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ottla.broker.apis.config_access import config_denial
from ottla.broker.apis.describe_configs import check_is_this_node
from ottla.broker.ground import Ground
from ottla.broker.listener_tls import is_tls_setting
from ottla.broker.metadata.metadata import Metadata
from ottla.broker.serving.sasl_settings import check_sasl, is_sasl_setting
from ottla.cluster.image import BROKER_RESOURCE, CLIENT_METRICS_RESOURCE
from ottla.config import BROKER_KEYS, ConfigError, ConfigType
from ottla.config.dynamic import check_client_metrics, check_dynamic_broker
from ottla.config.keys import format_value
from ottla.controller import Controller
from ottla.wire import Message
from ottla.wire.acls import AclOperation
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.incremental_alter_configs import AlterableConfig

if TYPE_CHECKING:
    from ottla.broker.caller import Caller

SET, DELETE, APPEND, SUBTRACT = range(4)
_ELR_FEATURE = "eligible.leader.replicas.version"
_MIN_INSYNC_REPLICAS = "min.insync.replicas"


def is_for_controller(caller: Caller) -> bool:
    """Whether this node got the request as a controller (forwarded, or on its listener): no broker's checks apply."""
    return caller.is_forwarded or caller.client.role == "controller"


def check_is_allowed(caller: Caller, kind: int, name: str) -> None:
    """KafkaError if the caller may not change the settings of a resource."""
    denied = config_denial(caller, AclOperation.ALTER_CONFIGS, kind, name)
    if denied is not None:
        raise KafkaError(denied, denied.text)


async def decide(
    metadata: Metadata, caller: Caller, request: Message, command: Callable[[Controller, Any], Any]
) -> Any:
    """The active controller's answer: this node's, or fetched from the active controller if the request came to a
    broker.
    """
    if metadata.controllership.is_active or is_for_controller(caller):
        return await metadata.commit(command(metadata.controller, request))
    return await metadata.controllership.forward(request, caller)


def check_configs(ground: Ground, kind: int, name: str, after: Mapping[str, str]) -> None:
    """Refuse settings that would be invalid after the change, for a broker or a client metrics subscription."""
    if kind == BROKER_RESOURCE:
        if name:
            check_is_this_node(name, ground)
        before = ground.image.configs.get((kind, name), {})
        if ground.image.features.get(_ELR_FEATURE, 0) >= 1:
            _check_min_insync_replicas(name, before, after)
        try:
            check_dynamic_broker(after, ground.config, is_default=not name)
            if name and any(is_tls_setting(one) for one in (*before, *after)):
                ground.listener_tls.check(ground.config.rebuilt(ground.config.dynamic_default, after))
            if name and any(is_sasl_setting(one) for one in (*before, *after)):
                check_sasl(ground.config.rebuilt(ground.config.dynamic_default, after))
        except ConfigError as error:
            # Kafka answers INVALID_REQUEST here, although INVALID_CONFIG would fit; clients expect it.
            raise KafkaError(ErrorCode.INVALID_REQUEST, error.message) from None
    elif kind == CLIENT_METRICS_RESOURCE:
        check_client_metrics(name, after)


def configs_after(ground: Ground, kind: int, name: str, changes: list[AlterableConfig]) -> dict[str, str]:
    """The settings of a resource after these operations."""
    after = dict(ground.image.configs.get((kind, name), {}))
    for change in changes:
        key, value = change.name, change.value
        if change.config_operation == DELETE:
            after.pop(key, None)
            continue
        if value is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {key}")
        if change.config_operation == SET:
            after[key] = value
        elif change.config_operation in (APPEND, SUBTRACT):
            known = BROKER_KEYS.get(key)
            if kind == BROKER_RESOURCE and (known is None or known.type is not ConfigType.LIST):
                verb = "append" if change.config_operation == APPEND else "subtract"
                raise KafkaError(ErrorCode.INVALID_CONFIG, f"Config value {verb} is not allowed for config key: {key}")
            if known is None or kind != BROKER_RESOURCE:
                parts = after.get(key, "").split(",")
            else:
                parts = after.get(key, format_value(known.default_value or ())).split(",")
            given = value.split(",")
            if change.config_operation == APPEND:
                parts += [part for part in given if part not in parts]
            else:
                parts = [part for part in parts if part not in given]
            after[key] = ",".join(part for part in parts if part)
        else:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {change.config_operation}")
    return after


def _check_min_insync_replicas(name: str, before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """With eligible leader replicas (KIP-966) one value holds for the whole cluster, and there is always one."""
    if name and before.get(_MIN_INSYNC_REPLICAS) != after.get(_MIN_INSYNC_REPLICAS):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
        )
    if not name and _MIN_INSYNC_REPLICAS in before and _MIN_INSYNC_REPLICAS not in after:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
        )
