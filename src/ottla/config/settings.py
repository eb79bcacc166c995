"""The machinery of a typed set of settings: a class body of declarations becomes a slotted, frozen value.

    class TopicConfig(Settings):
        retention_ms: Long = setting(604_800_000, MEDIUM, at_least(-1))

declares `retention.ms` once; `TopicConfig.KEYS["retention.ms"]` is its ConfigKey and `config.retention_ms` an int. Not
a dataclass: the broker has 360 settings, and creating a dataclass of that size would take most of the start-up time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from ottla.config.keys import ConfigKey, Value


class _Declared(type):
    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **kwargs: Any) -> _Declared:
        keys: dict[str, ConfigKey] = {}
        for base in bases:
            keys.update(getattr(base, "KEYS", {}))
        annotations: dict[str, str] = namespace.get("__annotations__", {})
        slots = list(namespace.get("__slots__", ()))
        for field, annotation in annotations.items():
            key = namespace.get(field)
            if isinstance(key, ConfigKey):
                key.bind(field, annotation)
                keys[key.name] = key
                slots.append(field)
                del namespace[field]
        namespace["KEYS"] = keys
        namespace["__slots__"] = slots
        return super().__new__(mcs, name, bases, namespace, **kwargs)


_set = object.__setattr__


class Settings(metaclass=_Declared):
    """A frozen value with one slot per declared setting."""

    __slots__ = ()
    KEYS: ClassVar[dict[str, ConfigKey]]

    def __init__(self, **values: Any) -> None:
        """Takes typed values by field name, unchecked; what is left out has Kafka's default."""
        for key in self.KEYS.values():
            field = key.field
            if field in values:
                value = values.pop(field)
            elif key.is_required:
                raise TypeError(f"{type(self).__name__} needs {field}")
            else:
                value = key.default
            _set(self, field, value)
        if values:
            raise TypeError(f"{type(self).__name__} has no {', '.join(values)}")

    @classmethod
    def _of(cls, values: Mapping[str, Value]) -> Self:
        """From checked values by Kafka's name."""
        self = object.__new__(cls)
        for name, key in cls.KEYS.items():
            _set(self, key.field, values.get(name, key.default))
        return self

    def value(self, name: str) -> Value:
        """The typed value of a setting by Kafka's name."""
        value: Value = getattr(self, self.KEYS[name].field)
        return value

    def values(self) -> dict[str, Value]:
        return {name: getattr(self, key.field) for name, key in self.KEYS.items()}

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: make a new one instead of setting {name}")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, key.field) == getattr(other, key.field) for key in self.KEYS.values())

    def __hash__(self) -> int:
        return hash(tuple(getattr(self, key.field) for key in self.KEYS.values()))

    def __repr__(self) -> str:
        changed = (
            f"{key.field}={getattr(self, key.field)!r}"
            for key in self.KEYS.values()
            if getattr(self, key.field) != key.default
        )
        return f"{type(self).__name__}({', '.join(changed)})"
