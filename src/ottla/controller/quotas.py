"""Client quotas: limits for users, client ids and addresses, kept in the metadata log and enforced by brokers."""

from __future__ import annotations

import re
from ipaddress import ip_address
from math import isfinite

from ottla.config.hash_order import entity_hash, hash_order, string_hash
from ottla.controller.view import MAX_RECORDS_PER_COMMAND, View
from ottla.machine import Decision
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntityData,
    AlterClientQuotasResponseEntryData,
)
from ottla.wire.messages.records.client_quota_record import ClientQuotaRecord, EntityData

_LONG, _INT = 2**63 - 1, 2**31 - 1
_LIMITS: dict[str, dict[str, int | None]] = {
    "client": {
        "producer_byte_rate": _LONG,
        "consumer_byte_rate": _LONG,
        "request_percentage": None,
        "controller_mutation_rate": None,
    },
    "ip": {"connection_creation_rate": _INT},
}
"""The largest value of each quota; None for quotas that may be fractions."""
_HOST = re.compile(r"(?=.*[A-Za-z])[A-Za-z0-9]([A-Za-z0-9.-]{0,253}[A-Za-z0-9])?")


def alter_client_quotas(view: View, request: AlterClientQuotasRequest) -> Decision[AlterClientQuotasResponse]:
    """Set and remove quotas. The quotas of one entity change together or not at all."""
    records: list[ClientQuotaRecord] = []
    entries: dict[tuple[tuple[str, str | None], ...], AlterClientQuotasResponseEntryData] = {}
    for entry in request.entries:
        named = tuple((part.entity_type, part.entity_name) for part in entry.entity)
        key = tuple(sorted(named, key=lambda part: part[0]))
        error: KafkaError | None = None
        try:
            entity = _checked_entity(entry)
            if key in entries:
                records = [record for record in records if _entity(record) != entity]
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"Ignoring duplicate entity {dict(entity)}")
            records += _records(view, entity, entry)
            if len(records) > MAX_RECORDS_PER_COMMAND:
                raise KafkaError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
        except KafkaError as raised:
            error = raised
        entries[key] = AlterClientQuotasResponseEntryData(
            error_code=ErrorCode.NONE if error is None else error.code,
            error_message=None if error is None else error.message,
            entity=[
                AlterClientQuotasResponseEntityData(entity_type=kind, entity_name=name)
                for kind, name in hash_order(named, lambda part: string_hash(part[0]))
            ],
        )
    if len(records) > MAX_RECORDS_PER_COMMAND:
        records = []
    response = AlterClientQuotasResponse(entries=[entries[key] for key in hash_order(entries, entity_hash)])
    return Decision([] if request.validate_only else list(records), response)


def _entity(record: ClientQuotaRecord) -> tuple[tuple[str, str | None], ...]:
    return tuple((part.entity_type, part.entity_name) for part in record.entity)


def _checked_entity(entry: AlterClientQuotasRequestEntryData) -> tuple[tuple[str, str | None], ...]:
    entity: dict[str, str | None] = {}
    for part in entry.entity:
        kind, name = part.entity_type, part.entity_name
        if kind in entity:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Invalid client quota entity, duplicate entity entry {kind}")
        if kind not in ("user", "client-id", "ip"):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Empty {kind} not supported")
        entity[kind] = name
    if not entity:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid empty client quota entity")
    if "ip" in entity:
        if len(entity) > 1:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "Invalid quota entity combination: an ip cannot be combined with a user or client-id",
            )
        address = entity["ip"]
        if address is not None and not _is_address(address):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{address} is not a valid IP or resolvable host.")
    return tuple(sorted(entity.items()))


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return _HOST.fullmatch(text) is not None
    return True


def _records(
    view: View, entity: tuple[tuple[str, str | None], ...], entry: AlterClientQuotasRequestEntryData
) -> list[ClientQuotaRecord]:
    limits = _LIMITS["ip" if entity[0][0] == "ip" else "client"]
    current = view.image.client_quotas.get(entity, {})
    records: dict[str, ClientQuotaRecord | None] = {}
    for operation in entry.ops:
        key, value = operation.key, operation.value
        if key in records:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Duplicate quota key {key} for {dict(entity)}")
        if operation.remove:
            is_changed = key in current
        else:
            _check_value(limits, key, value)
            is_changed = current.get(key) != value
        records[key] = (
            ClientQuotaRecord(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                key=key,
                value=0.0 if operation.remove else value,
                remove=operation.remove,
            )
            if is_changed
            else None
        )
    return [record for record in records.values() if record is not None]


def _check_value(limits: dict[str, int | None], key: str, value: float) -> None:
    if key not in limits:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Invalid configuration key {key}")
    if not value > 0.0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Quota {key} must be greater than 0")
    largest = limits[key]
    if largest is None:
        return
    if not isfinite(value) or value > largest:
        kind = "an INT" if largest == _INT else "a LONG"
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Proposed value for {key} is too large for {kind}.")
    if value % 1.0 > 1e-6:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{key} cannot be a fractional value.")
