"""DescribeClientQuotas v0-v1: the stored quotas of the entities that a filter matches."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.broker.caller import Caller
from ottla.broker.ground import Ground
from ottla.broker.serving.api import Api, cluster_wide
from ottla.config.hash_order import entity_hash, hash_order, string_hash
from ottla.wire.acls import AclOperation
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

EXACT, DEFAULT, SPECIFIED = range(3)
ENTITY_TYPES = ("user", "client-id", "ip")


def describe_client_quotas(
    request: DescribeClientQuotasRequest, ground: Ground, caller: Caller
) -> DescribeClientQuotasResponse:
    try:
        exact, specified = _read_filter(request.components)
    except KafkaError as error:
        return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)
    # Kafka's tables grow with the image. Entities that share a place stand in the order in which they came; Kafka
    # reverses these few if they came with one request or a snapshot.
    entries = []
    known = {entity: quotas for entity, quotas in ground.image.client_quotas.items() if quotas}
    for entity in hash_order(known, entity_hash, least_table_size=1):
        names = dict(entity)
        if request.strict and len(names) != len(exact) + len(specified):
            continue
        if _matches(names, exact, specified):
            quotas = known[entity]
            entries.append(
                EntryData(
                    entity=[
                        EntityData(entity_type=kind, entity_name=names[kind]) for kind in hash_order(names, string_hash)
                    ],
                    values=[
                        ValueData(key=key, value=quotas[key])
                        for key in hash_order(quotas, string_hash, least_table_size=1)
                    ],
                )
            )
    return DescribeClientQuotasResponse(error_message=None, entries=entries)


def _read_filter(components: list[ComponentData]) -> tuple[dict[str, str | None], set[str]]:
    """Entity types with the name they must have (None for the default), and those that must only be there."""
    exact: dict[str, str | None] = {}
    specified: set[str] = set()
    for component in components:
        kind, match = component.entity_type, component.match
        if not kind:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
        if kind in exact or kind in specified:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Entity type {kind} cannot appear more than once in the filter."
            )
        if kind not in ENTITY_TYPES:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}.")
        if component.match_type == EXACT:
            if match is None:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "An exact match needs a name.")
            exact[kind] = match
        elif component.match_type in (DEFAULT, SPECIFIED):
            if match is not None:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Only an exact match can have a name.")
            if component.match_type == DEFAULT:
                exact[kind] = None
            else:
                specified.add(kind)
        else:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown match type {component.match_type}")
    kinds = {*exact, *specified}
    if "ip" in kinds and len(kinds) > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid entity filter component combination.")
    return exact, specified


def _matches(names: Mapping[str, str | None], exact: Mapping[str, str | None], specified: set[str]) -> bool:
    return all(kind in names for kind in specified) and all(
        kind in names and names[kind] == name for kind, name in exact.items()
    )


api = Api(key=48, handler=describe_client_quotas, needs=cluster_wide(AclOperation.DESCRIBE_CONFIGS))
