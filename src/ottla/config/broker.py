"""A node's configuration: server.properties read, checked and typed, with dynamic settings laid over it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.config.broker_settings import BrokerSettings, DynamicBrokerSettings
from ottla.config.implemented import (
    AUTHORIZER_KEYS,
    IMPLEMENTED,
    REFUSED,
    REMOVED,
    STANDARD_AUTHORIZER,
)
from ottla.config.keys import READ_ONLY, ConfigError, ConfigKey, Value, invalid, parse_value
from ottla.config.listeners import (
    Listener,
    Voter,
    parse_connections_per_ip,
    parse_listeners,
    parse_security_protocol_map,
    parse_voters,
)
from ottla.config.own import AUDIT_LOG, AUDIT_TOPIC, OWN_KEYS, boolean, check_own, own_value
from ottla.config.plugins import check_class
from ottla.config.settings import _set
from ottla.config.synonyms import HOUR_MS, MINUTE_MS, broker_synonyms, is_listener_setting, without_listener_prefix

BROKER_KEYS: Final[dict[str, ConfigKey]] = BrokerSettings.KEYS
DYNAMIC_BROKER_KEYS: Final[dict[str, ConfigKey]] = DynamicBrokerSettings.KEYS

# Settings of plug-ins and listeners: Kafka hands them on without knowing their names.
OPEN_PREFIXES: Final = (
    "listener.name.",
    "ssl.",
    "sasl.",
    "rsm.config.",
    "rlmm.config.",
    "config.providers.",
    "org.apache.kafka.sasl.",
)

_MEBIBYTE: Final = 1_048_576


class BrokerConfig(BrokerSettings):
    """One node's settings. `listeners` and `advertised_listeners` are parsed; `value(name)` reads any by Kafka's name.

    It keeps the source of its values for DescribeConfigs: `static` (the file and the command line),
    `dynamic_default` (set for every broker) and `dynamic` (set for this one), later ones winning.
    """

    __slots__ = ("dynamic", "dynamic_default", "security_protocols", "static", "topic_defaults", "voters", "warnings")

    static: dict[str, str]
    dynamic_default: dict[str, str]
    dynamic: dict[str, str]
    security_protocols: dict[str, str]
    voters: tuple[Voter, ...]
    warnings: list[str]
    topic_defaults: object

    @classmethod
    def parse(cls, properties: Mapping[str, str]) -> BrokerConfig:
        """From the text of server.properties. Refuses unknown names and values out of bounds with ConfigError."""
        warnings: list[str] = []
        static: dict[str, str] = {}
        for name, text in properties.items():
            check_class(name, text)
            if name in AUTHORIZER_KEYS:
                if not properties.get("authorizer.class.name", "").strip():
                    warnings.append(f"{name} has no effect without authorizer.class.name={STANDARD_AUTHORIZER}")
            elif name in OWN_KEYS:
                check_own(name, text)
            elif name not in BROKER_KEYS:
                _refuse_unknown(name)
                if is_listener_setting(name, IMPLEMENTED):
                    static[name] = text
                    continue
                why = "removed from Kafka 4" if name in REMOVED else "known to Kafka but not used by Ottla"
                warnings.append(f"{name} is {why}: ignored")
                if name in REMOVED:
                    continue
            elif name in REFUSED and text.strip().lower() != REFUSED[name]:
                raise ConfigError(f"{name} cannot be {text}: Ottla does not support it, and going on without is unsafe")
            elif name not in IMPLEMENTED:
                warnings.append(f"{name} is known to Kafka but not used by Ottla: ignored")
            static[name] = text
        for name, synonym in (("node.id", "broker.id"), ("broker.id", "node.id")):
            if name not in static and synonym in static:
                static[name] = static[synonym]
        return cls._build(static, {}, {}, warnings)

    def with_dynamic(self, default: Mapping[str, str], own: Mapping[str, str]) -> BrokerConfig:
        """This node's static settings under the dynamic ones of all brokers and its own.

        A stored value that is no longer valid is left out with a warning: a node must start on any metadata log.
        """
        warnings = list(self.warnings)
        layers: list[dict[str, str]] = []
        for given in (default, own):
            kept: dict[str, str] = {}
            for name, text in given.items():
                try:
                    check_dynamic_value(name, text)
                except ConfigError as error:
                    warnings.append(f"dynamic setting ignored: {error}")
                else:
                    kept[name] = text
            layers.append(kept)
        try:
            return self._build(self.static, layers[0], layers[1], warnings)
        except ConfigError as error:
            warnings.append(f"dynamic settings ignored: {error}")
            return self._build(self.static, {}, {}, warnings)

    def rebuilt(self, default: Mapping[str, str], own: Mapping[str, str]) -> BrokerConfig:
        """This node's static settings with exactly these dynamic ones; ConfigError if they contradict each other."""
        return self._build(self.static, dict(default), dict(own), self.warnings)

    @classmethod
    def _build(
        cls, static: dict[str, str], default: dict[str, str], own: dict[str, str], warnings: list[str]
    ) -> BrokerConfig:
        values: dict[str, Value] = {}
        texts = static
        if default or own:
            # A dynamic value also replaces every synonym: log.retention.ms replaces log.retention.minutes.
            texts = dict(static)
            for layer in (default, own):
                for name in layer:
                    for synonym in broker_synonyms(name) if without_listener_prefix(name) is None else ():
                        texts.pop(synonym, None)
                texts.update(layer)
        for name, text in texts.items():
            key = BROKER_KEYS.get(name)
            if key is not None:
                values[name] = key.parse(text)
        for name in ("process.roles", "node.id", "controller.listener.names"):
            if name not in values:
                raise ConfigError(f"Missing required configuration {name} which has no default value")
        protocols = _security_protocols(texts, values)
        for name in ("listeners", "advertised.listeners"):
            entries = values.get(name)
            if isinstance(entries, tuple):
                values[name] = parse_listeners(name, entries, protocols, distinct_ports=name == "listeners")
        self = cls._of(values)
        _set(self, "static", static)
        _set(self, "dynamic_default", default)
        _set(self, "dynamic", own)
        _set(self, "warnings", warnings)
        _set(self, "security_protocols", protocols)
        _set(self, "voters", parse_voters(self.controller_quorum_voters))
        _set(self, "topic_defaults", None)
        self._check()
        return self

    def keep_topic_defaults(self, config: object) -> None:
        """Holds the one TopicConfig that all topics without overrides share."""
        _set(self, "topic_defaults", config)

    # What follows from several settings.

    @property
    def is_broker(self) -> bool:
        return "broker" in self.process_roles

    @property
    def is_controller(self) -> bool:
        return "controller" in self.process_roles

    @property
    def log_directories(self) -> tuple[str, ...]:
        """`log.dirs`, or `log.dir` when that is not set."""
        return self.log_dirs if self.log_dirs is not None else self.log_dir

    @property
    def metadata_log_directory(self) -> str:
        return self.metadata_log_dir if self.metadata_log_dir is not None else self.log_directories[0]

    @property
    def controller_listeners(self) -> tuple[Listener, ...]:
        names = {name.upper() for name in self.controller_listener_names}
        return tuple(listener for listener in self.listeners if listener.name in names)

    @property
    def broker_listeners(self) -> tuple[Listener, ...]:
        """The listeners for clients and other brokers."""
        names = {name.upper() for name in self.controller_listener_names}
        return tuple(listener for listener in self.listeners if listener.name not in names)

    @property
    def advertised_controller_listeners(self) -> tuple[Listener, ...]:
        """Where other nodes and tools find this controller, before port 0 and an empty host are filled in."""
        names = {name.upper() for name in self.controller_listener_names}
        advertised = {listener.name: listener for listener in self.advertised_listeners or ()}
        return tuple(advertised.get(listener.name, listener) for listener in self.listeners if listener.name in names)

    @property
    def advertised_broker_listeners(self) -> tuple[Listener, ...]:
        """What Metadata tells clients to connect to, before port 0 and an empty host are filled in."""
        names = {name.upper() for name in self.controller_listener_names}
        advertised = self.advertised_listeners if self.advertised_listeners is not None else self.listeners
        return tuple(listener for listener in advertised if listener.name not in names)

    @property
    def has_other_nodes(self) -> bool:
        """Whether the settings name other nodes, so that this one connects to them."""
        return (
            not self.is_controller
            or any(voter.node_id != self.node_id for voter in self.voters)
            or bool(self.controller_quorum_bootstrap_servers)
        )

    def listener(self, name: str) -> Listener:
        """The listener of this node with a name."""
        return next(one for one in self.listeners if one.name == name)

    @property
    def inter_broker_listener(self) -> str:
        """The name of the listener that brokers use among themselves."""
        if self.inter_broker_listener_name is not None:
            return self.inter_broker_listener_name.upper()
        return self.security_inter_broker_protocol

    def of_listener(self, listener: str, name: str, mechanism: str | None = None) -> Value:
        """The value of a setting for a listener, and for one of its SASL mechanisms if that is named: Kafka's prefixes
        `listener.name.<listener>.<mechanism>.` and `listener.name.<listener>.` win over the name alone."""
        prefix = f"listener.name.{listener.lower()}."
        names = [prefix + name] if mechanism is None else [f"{prefix}{mechanism.lower()}.{name}", prefix + name]
        for full in names:
            for layer in (self.dynamic, self.dynamic_default, self.static):
                if full in layer:
                    return BROKER_KEYS[name].parse(layer[full])
        return self.value(name)

    def has_of_listener(self, listener: str, name: str) -> bool:
        """Whether a setting is set with the prefix of a listener."""
        full = f"listener.name.{listener.lower()}.{name}"
        return any(full in layer for layer in (self.dynamic, self.dynamic_default, self.static))

    @property
    def log_retention_time_ms(self) -> int:
        """How long a log is kept, -1 for ever: milliseconds before minutes before hours."""
        if self.log_retention_ms is not None:
            retention_ms = self.log_retention_ms
        elif self.log_retention_minutes is not None:
            retention_ms = self.log_retention_minutes * MINUTE_MS
        else:
            retention_ms = self.log_retention_hours * HOUR_MS
        return max(retention_ms, -1)

    @property
    def has_authorizer(self) -> bool:
        """Whether ACLs decide what a principal may do; without an authorizer every principal may do everything."""
        return bool(self.authorizer_class_name.strip())

    @property
    def super_users(self) -> tuple[str, ...]:
        """Principals (`User:admin`) that may do everything, whatever ACLs say."""
        given = self.static.get("super.users", "")
        return tuple(user for part in given.split(";") if (user := part.strip()))

    @property
    def allow_everyone_if_no_acl_found(self) -> bool:
        """Whether a resource that no ACL is about is open to every principal. As in Kafka only `true` means yes."""
        return self.static.get("allow.everyone.if.no.acl.found", "").strip().lower() == "true"

    @property
    def has_logins(self) -> bool:
        """Whether a listener requires clients to log in."""
        return any(listener.security_protocol.startswith("SASL_") for listener in self.listeners)

    @property
    def has_audit_log(self) -> bool:
        """Whether audit events are logged: unless set otherwise, if there is an authorizer or a login."""
        given = self.static.get(AUDIT_LOG)
        return self.has_authorizer or self.has_logins if given is None else boolean(given)

    @property
    def has_audit_topic(self) -> bool:
        """Whether audit events are written to the topic `__ottla_audit`."""
        return boolean(own_value(self.static, AUDIT_TOPIC))

    @property
    def connections_per_ip_overrides(self) -> dict[str, int]:
        return parse_connections_per_ip(self.max_connections_per_ip_overrides)

    def _check(self) -> None:
        """What must hold between settings. One message names one setting, its value and what was expected."""
        broker_id = self.broker_id
        if broker_id >= 0 and broker_id != self.node_id:
            raise invalid("broker.id", broker_id, f"Must equal node.id ({self.node_id}) or be left out")
        self._check_listeners()
        self._check_authorizer()
        if self.log_retention_time_ms == 0:
            raise ConfigError("log.retention.ms must be -1 (for ever) or at least 1")
        if self.log_roll_ms is not None and self.log_roll_ms < 1:
            raise invalid("log.roll.ms", self.log_roll_ms, "Value must be at least 1")
        if self.log_roll_jitter_ms is not None and self.log_roll_jitter_ms < 0:
            raise invalid("log.roll.jitter.ms", self.log_roll_jitter_ms, "Value must be at least 0")
        per_thread = self.log_cleaner_dedupe_buffer_size // max(self.log_cleaner_threads, 1)
        if per_thread <= _MEBIBYTE:
            raise invalid(
                "log.cleaner.dedupe.buffer.size",
                self.log_cleaner_dedupe_buffer_size,
                "Needs more than 1 MiB per thread",
            )
        for low, high, wanted in (
            ("replica.fetch.wait.max.ms", "replica.socket.timeout.ms", "not be more than"),
            ("replica.fetch.wait.max.ms", "replica.lag.time.max.ms", "not be more than"),
            ("group.min.session.timeout.ms", "group.max.session.timeout.ms", "not be more than"),
            *_GROUP_BOUNDS,
        ):
            small, large = self.value(low), self.value(high)
            assert isinstance(small, int) and isinstance(large, int)
            if small > large:
                raise invalid(low, small, f"Must {wanted} {high} ({large})")
        if 2 * self.broker_heartbeat_interval_ms > self.broker_session_timeout_ms:
            raise invalid(
                "broker.heartbeat.interval.ms",
                self.broker_heartbeat_interval_ms,
                f"Must be at most half of broker.session.timeout.ms ({self.broker_session_timeout_ms})",
            )
        if 0 < self.queued_max_request_bytes < self.socket_request_max_bytes:
            raise invalid(
                "queued.max.request.bytes",
                self.queued_max_request_bytes,
                f"Must be at least socket.request.max.bytes ({self.socket_request_max_bytes}), or -1",
            )
        overrides = self.connections_per_ip_overrides
        if not self.max_connections_per_ip and not overrides:
            raise invalid("max.connections.per.ip", 0, "Zero needs max.connections.per.ip.overrides")
        if "classic" not in self.group_coordinator_rebalance_protocols:
            raise ConfigError("group.coordinator.rebalance.protocols must contain classic")

    def _check_authorizer(self) -> None:
        if not self.has_authorizer:
            return
        if self.authorizer_class_name.strip() != STANDARD_AUTHORIZER:
            raise invalid(
                "authorizer.class.name",
                self.authorizer_class_name,
                f"Ottla runs no Java classes: use {STANDARD_AUTHORIZER}, which Ottla has built in",
            )
        for user in self.super_users:
            kind, colon, name = user.partition(":")
            if not (kind and colon and name):
                raise invalid(
                    "super.users",
                    user,
                    "Expected principals as TYPE:NAME with semicolons between them, for example User:admin;User:broker",
                )

    def _check_listeners(self) -> None:
        listener_names = {listener.name for listener in self.listeners}
        # A broker opens its listeners after the ACLs are loaded, and a controller opens its own before: the setting
        # cannot change that, so only its names are checked.
        for early in self.early_start_listeners or ():
            if early.upper() not in listener_names | {name.upper() for name in self.controller_listener_names}:
                raise invalid(
                    "early.start.listeners", early, "Must be one of listeners or of controller.listener.names"
                )
        if self.is_controller and not self.controller_listeners:
            raise ConfigError(
                f"listeners must contain one of controller.listener.names ({', '.join(self.controller_listener_names)})"
            )
        if self.is_controller and self.voters and not any(voter.node_id == self.node_id for voter in self.voters):
            raise ConfigError(f"controller.quorum.voters must contain node.id {self.node_id}, as it is a controller")
        if not self.is_controller:
            if any(voter.node_id == self.node_id for voter in self.voters):
                raise ConfigError(f"controller.quorum.voters contains node.id {self.node_id}, which is no controller")
            if self.controller_listeners:
                raise ConfigError("listeners of a node that is no controller must not contain a controller listener")
        if not self.is_broker:
            if self.broker_listeners:
                raise ConfigError("listeners of a node that is no broker must contain controller listeners only")
            return
        if not self.broker_listeners:
            raise ConfigError("listeners must contain one that is not a controller listener")
        if self.advertised_listeners is not None:
            for listener in self.advertised_listeners:
                if listener.host == "0.0.0.0":
                    raise invalid(
                        "advertised.listeners", str(listener), "0.0.0.0 is no address a client can connect to"
                    )
                if listener.name not in listener_names:
                    raise invalid("advertised.listeners", str(listener), f"{listener.name} is not one of listeners")
        elif any(listener.host == "0.0.0.0" for listener in self.broker_listeners):
            raise ConfigError(
                "advertised.listeners is needed when listeners has 0.0.0.0, which no client can connect to"
            )
        if self.inter_broker_listener_name is not None and "security.inter.broker.protocol" in self.static:
            raise ConfigError("Only one of inter.broker.listener.name and security.inter.broker.protocol can be set")
        if self.inter_broker_listener not in {listener.name for listener in self.advertised_broker_listeners}:
            setting = "inter.broker.listener.name"
            names = ", ".join(listener.name for listener in self.advertised_broker_listeners)
            raise invalid(setting, self.inter_broker_listener, f"Must be an advertised broker listener: {names}")


_GROUP_BOUNDS: Final = tuple(
    (f"group.{kind}.{low}{rest}", f"group.{kind}.{high}{rest}", "not be more than")
    for kind in ("consumer", "share", "streams")
    for rest in ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")
    for low, high in (("min.", ""), ("", "max."))
)


def _security_protocols(texts: Mapping[str, str], values: Mapping[str, Value]) -> dict[str, str]:
    """Listener name -> protocol. As in Kafka, controller listeners are plain text unless anything asks for security."""
    name = "listener.security.protocol.map"
    given = values.get(name, BROKER_KEYS[name].default)
    assert isinstance(given, str)
    protocols = parse_security_protocol_map(given)
    if name in texts:
        return protocols
    used = [entry for setting in ("listeners", "advertised.listeners") for entry in _entries(values.get(setting))]
    if not any(entry.upper().startswith(("SSL:", "SASL_")) for entry in used):
        for controller in _entries(values.get("controller.listener.names")):
            protocols.setdefault(controller.upper(), "PLAINTEXT")
    return protocols


def _entries(value: object) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()


def _refuse_unknown(name: str) -> None:
    if name.startswith(OPEN_PREFIXES) or name in REMOVED:
        return
    from difflib import get_close_matches

    if name in DYNAMIC_BROKER_KEYS:
        raise ConfigError(f"{name} cannot be set in a file: set it as a dynamic broker setting")
    near = get_close_matches(name, [*BROKER_KEYS, *OWN_KEYS], n=1, cutoff=0.6)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise ConfigError(f"Unknown setting {name}{hint}")


def check_dynamic_value(name: str, text: str) -> None:
    """Refuses a dynamic broker setting that does not exist, cannot change at run time or has an invalid value."""
    base = without_listener_prefix(name)
    key = DYNAMIC_BROKER_KEYS.get(name) or BROKER_KEYS.get(base if base is not None else name)
    if key is None:
        if base is not None and base.endswith(".sasl.jaas.config"):
            return
        if base is None and name not in BROKER_KEYS:
            # As in Kafka an unknown name is accepted: a plug-in may read it.
            return
        raise ConfigError(f"Unknown dynamic setting {name}")
    if key.update_mode == READ_ONLY:
        raise ConfigError(f"Cannot update these configs dynamically: {name}")
    key.check(parse_value(name, key.type, text))
