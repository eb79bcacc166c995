"""Keys, values and headers as a page shows them: JSON, text or hex; with a registry Avro, Protobuf and JSON Schema.

Everything here may wait for the registry and runs in a thread.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ottla.client.core.fetching import RawRecord
from ottla.console.masking import MASK, Mask

if TYPE_CHECKING:
    from ottla.converters.registry import RegistrySettings

MAX_SHOWN = 64 * 1024
MAX_SHOWN_ALONE = 1024 * 1024
MAX_PARSED = 4 * 1024 * 1024
MAX_REASON = 1_000
_CONTROLS = frozenset(range(32)) - {9, 10, 13}
_KINDS = {"AVRO": "avro", "PROTOBUF": "protobuf", "JSON": "json-schema"}


class Contents:
    """Makes contents. One instance keeps the decoders of the schemas that it met."""

    def __init__(self, registry: RegistrySettings | None = None) -> None:
        self._registry = registry
        self._decoder: Any = None

    def records(
        self, records: Sequence[RawRecord], mask: Mask | None, format_: str = "auto", max_shown: int = MAX_SHOWN
    ) -> list[dict[str, Any]]:
        """Records as the interface has them."""
        keys = self.registered([record.key for record in records]) if format_ in ("auto", "json") else {}
        values = self.registered([record.value for record in records]) if format_ in ("auto", "json") else {}
        return [
            _record(record, mask, format_, max_shown, keys.get(row), values.get(row))
            for row, record in enumerate(records)
        ]

    def document(self, data: bytes | None, found: Registered | None = None) -> Any:
        """The value of bytes for a filter: the JSON value if it is one, else the text."""
        if data is None:
            return None
        given = data if found is None or found.text is None else found.text
        if len(given) <= MAX_PARSED:
            try:
                return json.loads(given)
            except (ValueError, RecursionError):
                pass
        return given.decode("utf-8", "replace")

    def registered(self, data: Sequence[bytes | None]) -> dict[int, Registered]:
        """By row, the values that were written with a schema of the registry."""
        if self._registry is None:
            return {}
        framed = [row for row, one in enumerate(data) if one is not None and len(one) > 5 and one[0] == 0]
        if not framed:
            return {}
        texts, errors, kinds = self._decoded([data[row] for row in framed])
        found = {}
        for place, row in enumerate(framed):
            one = data[row]
            assert one is not None
            schema_id = int.from_bytes(one[1:5], "big")
            text = None if errors[place] is not None else texts[place]
            error = errors[place]
            found[row] = Registered(
                schema_id, kinds.get(schema_id), text, None if error is None else error[:MAX_REASON]
            )
        return found

    def _decoded(self, data: list[bytes | None]) -> tuple[list[bytes | None], list[str | None], dict[int, str]]:
        from ottla.cli.registered import RegisteredDecoder
        from ottla.cli.session import CommandError
        from ottla.converters.errors import ConverterError
        from ottla.converters.registry import registry_of

        assert self._registry is not None
        if self._decoder is None:
            self._decoder = RegisteredDecoder(self._registry, lambda _: None)
        try:
            texts, errors = self._decoder.texts(data)
            kinds = {}
            for schema_id in {
                int.from_bytes(one[1:5], "big") for one, bad in zip(data, errors, strict=True) if one and not bad
            }:
                kinds[schema_id] = _KINDS.get(registry_of(self._registry).by_id(schema_id).kind, "json")
        except (ConverterError, CommandError) as error:
            return data, [str(error)] * len(data), {}
        return texts, errors, kinds


class Registered:
    """The JSON text of bytes with a schema, or the error."""

    __slots__ = ("error", "kind", "schema_id", "text")

    def __init__(self, schema_id: int, kind: str | None, text: bytes | None, error: str | None) -> None:
        self.schema_id = schema_id
        self.kind = kind
        self.text = text
        self.error = error


def _record(
    record: RawRecord,
    mask: Mask | None,
    format_: str,
    max_shown: int,
    key: Registered | None,
    value: Registered | None,
) -> dict[str, Any]:
    size = len(record.key or b"") + len(record.value or b"")
    size += sum(len(name) + len(one or b"") for name, one in record.headers)
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": record.timestamp_type,
        "key": _hidden(record.key) if mask and mask.is_key else content(record.key, format_, max_shown, key),
        "value": content(record.value, format_, max_shown, value, mask if mask and mask.touches_value else None),
        "headers": [
            {
                "name": name,
                "value": _hidden(one) if mask and name in mask.headers else content(one, format_, max_shown),
            }
            for name, one in record.headers
        ],
        "size_bytes": size,
    }


def content(
    data: bytes | None,
    format_: str = "auto",
    max_shown: int = MAX_SHOWN,
    found: Registered | None = None,
    mask: Mask | None = None,
) -> dict[str, Any] | None:
    if data is None:
        return None
    if mask is not None:
        return _masked(data, format_, max_shown, found, mask)
    schema = None if found is None or found.error is not None else {"id": found.schema_id}
    if found is not None and found.text is not None:
        return _shown(found.kind or "json", found.text.decode("utf-8", "replace"), len(data), max_shown, schema=schema)
    error = None if found is None else found.error
    if format_ == "hex":
        return _hex(data, max_shown, error)
    if format_ != "text" and _is_json(data):
        return _shown("json", data.decode().strip(), len(data), max_shown, error=error)
    head = data[: max_shown * 4]
    try:
        text = head.decode()
    except UnicodeDecodeError as wrong:
        if format_ != "text" and not (len(head) < len(data) and wrong.start >= len(head) - 4):
            return _hex(data, max_shown, error)
        text = head.decode("utf-8", "replace")
    if format_ != "text" and not _CONTROLS.isdisjoint(head):
        return _hex(data, max_shown, error)
    made = _shown("text", text, len(data), max_shown, error=error)
    made["is_cut"] = made["is_cut"] or len(head) < len(data)
    return made


def _is_json(data: bytes) -> bool:
    head = data[:64].lstrip()
    if head[:1] not in (b"{", b"[") or len(data) > MAX_PARSED:
        return False
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def _masked(data: bytes, format_: str, max_shown: int, found: Registered | None, mask: Mask) -> dict[str, Any]:
    given = data if found is None else found.text
    if mask.is_value or given is None or len(given) > MAX_PARSED:
        return _masked_whole()
    try:
        parsed = json.loads(given)
    except (ValueError, RecursionError):
        return _masked_whole()
    if not isinstance(parsed, dict | list):
        return _masked_whole()
    hidden = mask.masked(parsed)
    text = json.dumps(hidden, ensure_ascii=False, separators=(",", ":"))
    schema = None if found is None else {"id": found.schema_id}
    made = _shown((found and found.kind) or "json", text, len(data), max_shown, schema=schema)
    made["is_masked"] = hidden != parsed
    if format_ == "hex":
        made["format"] = "json"
    return made


def _hidden(data: bytes | None) -> dict[str, Any] | None:
    return None if data is None else _masked_whole()


def _masked_whole() -> dict[str, Any]:
    made = _shown("text", MASK, 0, len(MASK))
    made["is_masked"] = True
    return made


def _hex(data: bytes, max_shown: int, error: str | None) -> dict[str, Any]:
    head = data[: max_shown // 2]
    made = _shown("hex", head.hex(), len(data), max_shown, error=error)
    made["is_cut"] = len(head) < len(data)
    return made


def _shown(
    format_: str,
    text: str,
    size: int,
    max_shown: int,
    *,
    schema: dict[str, Any] | None = None,
    error: str | None = None,
) -> dict[str, Any]:
    return {
        "format": format_,
        "text": text[:max_shown],
        "size_bytes": size,
        "is_cut": len(text) > max_shown,
        "is_masked": False,
        "schema": schema,
        "error": error,
    }
