"""What `Broker(secure=True)` and `Cluster(secure=True)` give a test: certificates, the user admin, ready settings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.cli.security_folder_name import ADMIN
from ottla.testing.temporary_folder import TemporaryFolder

if TYPE_CHECKING:
    from ottla.cli.security_folder import SecurityFolder
    from ottla.client.blocking import Admin


class TestSecurity:
    """A CA of the test's own, certificates of so many nodes and the password of admin. They go with the test."""

    __test__ = False

    def __init__(self, nodes: int = 1) -> None:
        from ottla.cli.security_folder import SecurityFolder

        self._temporary = TemporaryFolder()
        self.folder: SecurityFolder = SecurityFolder(Path(self._temporary.path) / "security")
        self.folder.make(nodes)

    def remove(self) -> None:
        self._temporary.remove()


class SecuredClients(ABC):
    """Settings of clients. Without `secure=True` they are `bootstrap.servers` alone."""

    _security: TestSecurity | None = None

    @property
    @abstractmethod
    def bootstrap_servers(self) -> str: ...

    @property
    def security(self) -> SecurityFolder | None:
        """The folder with the certificates (`ca`, `client("admin")`), as `ottla security init` makes it."""
        return None if self._security is None else self._security.folder

    def client_settings(self, user: str = ADMIN, password: str | None = None) -> dict[str, str]:
        """Settings of Kafka's clients and of `ottla.client`; the user is admin, unless another one is named."""
        settings = {"bootstrap.servers": self.bootstrap_servers}
        if self._security is not None:
            folder = self._security.folder
            settings |= folder.client_settings(user, folder.password() if password is None else password)
        return settings

    def librdkafka_settings(self, user: str = ADMIN, password: str | None = None) -> dict[str, str]:
        """Settings of confluent-kafka and other clients on librdkafka, with the same parameters."""
        settings = {"bootstrap.servers": self.bootstrap_servers}
        if self._security is not None:
            folder = self._security.folder
            settings |= {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": user,
                "sasl.password": folder.password() if password is None else password,
                "ssl.ca.location": str(folder.ca),
            }
        return settings

    def admin(self, **settings: Any) -> Admin:
        """An admin client, logged in as admin; close it, or use it in a `with` block."""
        from ottla.client.blocking import Admin

        return Admin({**self.client_settings(), **settings})

    def add_user(self, user: str, password: str) -> None:
        """A user that logs in by SCRAM; grant it rights with ACLs (`admin().create_acls`)."""
        with self.admin() as admin:
            admin.set_scram_password(user, password)
