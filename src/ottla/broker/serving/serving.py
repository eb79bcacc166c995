"""The room of clients: listeners and their connections, the table of APIs, quotas and telemetry."""

from __future__ import annotations

import errno
import logging
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.access import Access
from ottla.broker.audit import AuditEvent
from ottla.broker.caller import Client
from ottla.broker.listener_tls import has_tls, is_tls_setting, principal_mapping
from ottla.broker.serving.admission import (
    MAX_CONNECTIONS,
    CreationRates,
    certified_principal,
    own_limit,
)
from ottla.broker.serving.authorization import Authorization
from ottla.broker.serving.connection import Connection
from ottla.broker.serving.login import ConnectionLogin, ListenerLogins
from ottla.broker.serving.quotas import Quotas
from ottla.broker.serving.refused_handshakes import RefusedHandshakes
from ottla.broker.serving.sasl_settings import is_sasl
from ottla.broker.serving.scram_credentials import ScramCredentials
from ottla.broker.serving.telemetry import Telemetry
from ottla.cluster.image import BROKER_RESOURCE, CLIENT_METRICS_RESOURCE
from ottla.config import ConfigError
from ottla.net import Channel, Listener, ReceiveBuffers, Sockets
from ottla.net.listener import NodeConnections
from ottla.net.tls import TlsSocket
from ottla.security.principal import ANONYMOUS, Principal

if TYPE_CHECKING:
    from ottla.broker.ground import Ground
    from ottla.broker.serving.api_table import ApiTable
    from ottla.cluster import ImageChanges
    from ottla.config import Listener as ListenerConfig

log = logging.getLogger("ottla.serving")

MIN_LISTEN_BACKLOG = 1024
CLIENT_EXPIRY_INTERVAL_MS = 60_000


class ListenError(Exception):
    """Why an address cannot be bound, and which setting chooses another."""

    def __init__(self, address: str, setting: str, error: OSError) -> None:
        if error.errno == errno.EADDRINUSE:
            reason = "is taken by another program; stop it, or choose another port with"
        else:
            reason = f"cannot be listened on ({error.strerror or error}); see"
        super().__init__(f"{address} {reason} {setting}")


class Serving:
    def __init__(
        self,
        ground: Ground,
        sockets: Sockets,
        buffers: ReceiveBuffers,
        apis: ApiTable,
        on_broker_lost: Callable[[int], None],
    ) -> None:
        self.ground = ground
        self.apis = apis
        self.quotas = Quotas()
        self.quotas.configure(ground.config)
        self.telemetry = Telemetry()
        self.authorization = Authorization(ground)
        self.scram_credentials = ScramCredentials(ground)
        self.ports: dict[str, int] = {}
        """By listener."""
        self._sockets = sockets
        self._buffers = buffers
        self._on_broker_lost = on_broker_lost
        """Called with a broker whose heartbeats came through a connection that closed."""
        self.on_client_lost: Callable[[Client], None] = lambda client: None
        """Called when a connection of a client closed."""
        self._listeners: list[Listener] = []
        self._all_connections = NodeConnections(ground.config.max_connections)
        self._rates = CreationRates(ground.config)
        self._connections: dict[Connection, None] = {}

    # Listeners

    def open(self, config: ListenerConfig, role: str) -> Listener:
        """Bind a listener. Clients are accepted once `start_accepting` is called. ListenError if it cannot be bound,
        ConfigError if its TLS settings cannot be used."""
        ground = self.ground
        logins = None
        if is_sasl(config.security_protocol):
            logins = ListenerLogins(ground, config.name, self.scram_credentials, self.access)
        tls_context = self._tls_context(config)
        mapping = principal_mapping(ground.config, config.name)

        def accept(channel: Channel, host: str, port: int, tls: TlsSocket | None) -> Connection:
            principal = ANONYMOUS
            if tls is not None and config.security_protocol == "SSL":
                principal = certified_principal(tls.certificate(), mapping)
                meter = ground.metrics.logins(config.name)
                meter.successful_authentication += 1
                meter.successful_authentication_no_reauth += 1
                if principal is not ANONYMOUS:
                    ground.audit.record(
                        AuditEvent(
                            kind="login", principal=str(principal), host=host, listener=config.name, operation="SSL"
                        )
                    )
            ground.metrics.connections_opened.add()
            access = self.access(principal, host, config.name)
            connection = Connection(self, channel, Client(host, port, config.name, role, access=access))
            self._connections[connection] = None
            if logins is not None:
                connection.gate = connection.client.login = ConnectionLogin(logins, connection, channel)
            return connection

        is_protected = config.name == ground.config.inter_broker_listener and len(ground.config.listeners) > 1
        listener = Listener(
            ground.loop,
            self._sockets,
            accept,
            max_frame_bytes=ground.config.socket_request_max_bytes,
            max_connections=own_limit(ground.config, config.name, MAX_CONNECTIONS),
            max_connections_per_ip=ground.config.max_connections_per_ip,
            idle_ms=ground.config.connections_max_idle_ms,
            buffers=self._buffers,
            hold_ms=self._hold_ms,
            pause_ms=lambda: self._rates.pause_ms(config.name, ground.now(), is_protected=is_protected),
            node=self._all_connections,
            name=config.name,
            is_protected=is_protected,
            tls=tls_context,
            on_refused=RefusedHandshakes(ground, config.name).add,
        )
        self._rates.add(ground.config, config.name)
        listener.connections_per_ip = ground.config.connections_per_ip_overrides
        # Kafka's default of 50 is for a thread that only accepts; this thread also answers requests.
        backlog = max(ground.config.socket_listen_backlog_size, MIN_LISTEN_BACKLOG)
        try:
            port = self.ports[config.name] = listener.open(config.host, config.port, backlog)
        except OSError as error:
            raise ListenError(f"{config.host or '*'}:{config.port}", "--port or listeners", error) from error
        log.info("listener %s is %s:%d (%s)", config.name, config.host or "*", port, config.security_protocol)
        self._listeners.append(listener)
        return listener

    def _tls_context(self, config: ListenerConfig) -> ssl.SSLContext | None:
        if not has_tls(config.security_protocol):
            return None
        ground = self.ground
        try:
            return ground.listener_tls.context(ground.config, config)
        except ConfigError as error:
            if not any(is_tls_setting(name) for name in ground.config.dynamic):
                raise
            # A node must start on any metadata log: use the stores of its file.
            log.error("%s: using the key store of this node's own file instead", error.message)
            return ground.listener_tls.context(ground.static_config, config)

    def stop(self) -> None:
        for listener in self._listeners:
            listener.close()

    def _hold_ms(self, host: str) -> int:
        """KIP-612: addresses that connect more often than their quota allows are held back, then closed."""
        return self.quotas.record_connection(host, self.ground.now()) if self.quotas.is_connection_quota_set else 0

    # Connections

    def access(self, principal: Principal, host: str, listener: str = "") -> Access:
        """The permissions of a principal that connected from a host."""
        return self.authorization.access(principal, host, listener)

    def connection_closed(self, connection: Connection) -> None:
        self._connections.pop(connection, None)
        if connection.client.broker_id >= 0:
            self._on_broker_lost(connection.client.broker_id)
        self.on_client_lost(connection.client)

    def connection_counts(self) -> dict[str, int]:
        """Open connections by listener."""
        counts = dict.fromkeys(self.ports, 0)
        for connection in self._connections:
            counts[connection.client.listener] += 1
        return counts

    # What changes

    def schedule(self) -> None:
        """Start the periodic work: forget clients that are silent for long."""
        self.ground.every(CLIENT_EXPIRY_INTERVAL_MS, self._forget_silent_clients)

    def _forget_silent_clients(self) -> None:
        self.quotas.expire(self.ground.now())
        self.telemetry.expire(self.ground.now())

    def use_acls(self) -> None:
        """Take the ACLs of the image: from now on requests of other principals than super users can be allowed."""
        self.authorization.use_image()
        self._forget_decisions()

    def acls_changed(self, changes: ImageChanges) -> None:
        """Apply changes of ACLs to the next request of each open connection."""
        if self.authorization.image_changed(changes):
            self._forget_decisions()

    def _forget_decisions(self) -> None:
        for connection in self._connections:
            connection.client.access.forget()

    def use_image(self) -> None:
        """Take quotas and telemetry subscriptions from the image."""
        self.quotas.replace(self.ground.image.client_quotas)
        self._use_telemetry_subscriptions()

    def image_changed(self, changes: ImageChanges) -> None:
        kinds = {kind for kind, _ in changes.configs_changed}
        if CLIENT_METRICS_RESOURCE in kinds:
            self._use_telemetry_subscriptions()
        if BROKER_RESOURCE in kinds:
            self._use_config()
        if changes.scram_users_changed:
            self.scram_credentials.changed()
        if changes.delegation_tokens_changed:
            self.scram_credentials.tokens.changed(changes.delegation_tokens_changed)
        if changes.client_quotas_changed:
            self.quotas.replace(self.ground.image.client_quotas)

    def _use_config(self) -> None:
        """Apply changed limits and key stores. A key store is read again even if its path stays."""
        config = self.ground.config
        self._all_connections.max_connections = config.max_connections
        self._rates.use(config)
        for listener, declared in ((one, config.listener(one.name)) for one in self._listeners):
            listener.max_connections = own_limit(config, listener.name, MAX_CONNECTIONS)
            listener.max_connections_per_ip = config.max_connections_per_ip
            listener.connections_per_ip = config.connections_per_ip_overrides
            if has_tls(declared.security_protocol):
                self._load_again(listener, declared)

    def _load_again(self, listener: Listener, declared: ListenerConfig) -> None:
        try:
            context = self.ground.listener_tls.context(self.ground.config, declared)
        except ConfigError as error:
            log.error("%s: the node keeps its present key store", error.message)
            return
        if context is not listener.tls:
            log.info("listener %s: new connections use the key store and trust store loaded now", listener.name)
            listener.tls = context

    def _use_telemetry_subscriptions(self) -> None:
        configs = self.ground.image.configs
        self.telemetry.replace((name, configs[kind, name]) for kind, name in configs if kind == CLIENT_METRICS_RESOURCE)
