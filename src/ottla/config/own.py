"""Settings of Ottla's own, which Kafka does not have: their names begin with `ottla.`.

They are in server.properties beside Kafka's, cannot be changed while the node runs, and DescribeConfigs does not list
them: tools compare that list with Kafka's.
"""

from __future__ import annotations

from typing import Final

from ottla.config.keys import ConfigError

AUDIT_LOG: Final = "ottla.audit.log.enable"
AUDIT_TOPIC: Final = "ottla.audit.topic.enable"
BOOLEANS: Final = frozenset((AUDIT_LOG, AUDIT_TOPIC))
OWN_KEYS: Final = BOOLEANS


def check_own(name: str, text: str) -> None:
    """ConfigError if a setting of Ottla's own has a value that it cannot have."""
    if name in BOOLEANS and text.strip().lower() not in ("true", "false"):
        raise ConfigError(f"{name} cannot be {text}: use true or false")


def boolean(text: str) -> bool:
    return text.strip().lower() == "true"
