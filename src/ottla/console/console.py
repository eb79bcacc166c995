"""The console without HTTP: what all requests share, and the answer to each of them."""

from __future__ import annotations

import logging
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ottla.client.errors import KafkaError
from ottla.console.audit_log import AuditLog
from ottla.console.call import Call, Route, Routes
from ottla.console.connection import Connection, Connections
from ottla.console.contents import Contents
from ottla.console.faults import Fault, of_kafka
from ottla.console.jobs import Jobs
from ottla.console.masking import Masking
from ottla.console.oidc import OidcConfig
from ottla.console.overview import Checked
from ottla.console.sampler import Sampler
from ottla.console.topics import ChangedSettings

if TYPE_CHECKING:
    from ottla.converters.registry import RegistrySettings

_log = logging.getLogger("ottla.console")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleConfig:
    host: str = "127.0.0.1"
    port: int = 8080
    clusters: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    """By name the settings of clients."""
    is_read_only: bool = False
    needs_login: bool = False
    masks: tuple[str, ...] = ()
    registry: RegistrySettings | None = None
    pipelines: Path | None = None
    may_mcp_write: bool = False
    oidc: OidcConfig | None = None
    has_passwords: bool = True
    """Whether users log in by name and password, too."""
    tls_certificate: str | None = None
    tls_key: str | None = None


class Console:
    def __init__(self, config: ConsoleConfig, routes: Routes) -> None:
        self.config = config
        self.routes = routes
        self.connections = Connections(config.clusters)
        self.masking = Masking(config.masks)
        self.registry = config.registry
        self.contents = Contents(config.registry)
        self.jobs = Jobs()
        self.audit = AuditLog()
        self.clock = time.monotonic
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        """Pipelines that were started here, by their folder; they go on when the console ends."""
        self._checked: WeakKeyDictionary[Connection, Checked] = WeakKeyDictionary()
        self._settings: WeakKeyDictionary[Connection, ChangedSettings] = WeakKeyDictionary()

    def sampler(self, connection: Connection) -> Sampler:
        if connection.sampler is None:
            connection.sampler = Sampler(connection)
            connection.sampler.start()
        return connection.sampler

    def changed_settings(self, connection: Connection) -> ChangedSettings:
        return self._settings.setdefault(connection, ChangedSettings())

    def checked(self, connection: Connection) -> Checked:
        return self._checked.setdefault(connection, Checked())

    async def answer(self, method: str, path: str, call: Call) -> Any:
        """The answer to a request below a cluster's path. Fault: it is refused."""
        route, call.names = self.routes.find(method, path)
        is_preview = isinstance(call.body, dict) and call.body.get("preview") is True
        is_change = route.is_change and not is_preview
        if route.is_change and self.config.is_read_only and not is_preview:
            raise Fault(403, "READ_ONLY", "the console is read-only", "it was started with --read-only")
        call.connection.use_count += 1
        try:
            made = await route.handler(call)
        except KafkaError as error:
            fault = of_kafka(error)
            if is_change:
                self._record(call, route, fault)
            raise fault from None
        except Fault as fault:
            if is_change:
                self._record(call, route, fault)
            raise
        finally:
            call.connection.use_count -= 1
        if is_change:
            self._record(call, route, None)
        return made

    def _record(self, call: Call, route: Route, fault: Fault | None) -> None:
        first = next(iter(call.names), "")
        resource = f"{first.capitalize()}:{call.names[first]}" if first else ""
        if not resource and isinstance(call.body, dict) and isinstance(call.body.get("name"), str):
            resource = f"{route.path.partition('/')[0].removesuffix('s').capitalize()}:{call.body['name'][:200]}"
        reason = "" if fault is None else f"{fault.code}: {fault.message}"
        self.audit.record(
            call.connection.cluster, call.user, call.remote, route.operation, resource,
            is_success=fault is None, reason=reason,
        )  # fmt: skip

    async def close(self) -> None:
        await self.jobs.close()
        await self.connections.close()
