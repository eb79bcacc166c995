"""The folder that `ottla security init` makes: a CA, certificates of nodes and clients, and the first user.

    ca.pem              what clients and nodes trust
    ca.key              signs further certificates
    node-1.pem          key and certificate of a node, one for each
    client-admin.pem    key and certificate of a client
    admin.password      of the user `admin`, which may do everything
    client.properties   how clients log in as `admin`; any Kafka client and --command-config take it
    brokers             while a secured node or cluster of this machine runs with the folder: its addresses

Every file but ca.pem can be read by its owner only. What runs a secured node of this machine takes its settings from
here, too (`node_settings`).
"""

from __future__ import annotations

import os
import re
import secrets
import socket
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from ottla.cli.certificates import DAYS, Authority
from ottla.cli.security_folder_name import ADMIN as ADMIN
from ottla.cli.security_folder_name import DEFAULT as DEFAULT
from ottla.cli.session import MISUSED, CommandError

PASSWORD_BYTES = 24
MECHANISM = "SCRAM-SHA-512"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
SECRET, PUBLIC = 0o600, 0o644


def local_names() -> list[str]:
    """The names that clients may use for this machine."""
    found = ["localhost", "127.0.0.1", "::1"]
    with suppress(OSError):
        found += [socket.gethostname(), socket.getfqdn()]
    return [name for name in dict.fromkeys(found) if name and not name.endswith(".arpa")]


class SecurityFolder:
    """The paths in a folder, and the files created there."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.ca = self.path / "ca.pem"
        self.ca_key = self.path / "ca.key"
        self.admin_password = self.path / "admin.password"
        self.client_properties = self.path / "client.properties"
        self.brokers = self.path / "brokers"

    @property
    def exists(self) -> bool:
        return self.ca.exists()

    def node(self, name: str) -> Path:
        return self.path / f"{name}.pem"

    def client(self, name: str) -> Path:
        return self.path / f"client-{name}.pem"

    def make(self, nodes: int = 3, names: Iterable[str] = (), days: int = DAYS) -> list[Path]:
        """The names of all files in the folder. A folder that has any of them is refused, so that no key is lost."""
        wanted = [self.ca, self.ca_key, self.admin_password, self.client_properties, self.client(ADMIN)]
        wanted += [self.node(f"node-{number}") for number in range(1, nodes + 1)]
        there = [path.name for path in wanted if path.exists()]
        if there:
            raise CommandError(
                f"{self.path} has {', '.join(there)} already, and nothing is overwritten: name another folder with "
                "--dir, or move these files away"
            )
        authority = Authority.create("Ottla CA")
        all_names = [*local_names(), *names]
        texts = {
            self.ca: authority.certificate,
            self.ca_key: authority.key,
            self.client(ADMIN): authority.issue(ADMIN, is_server=False, days=days).store,
        }
        for number in range(1, nodes + 1):
            name = f"node-{number}"
            texts[self.node(name)] = authority.issue(name, all_names, is_server=True, days=days).store
        password = secrets.token_urlsafe(PASSWORD_BYTES)
        texts[self.admin_password] = f"{password}\n"
        texts[self.client_properties] = self.client_text(ADMIN, password)
        self.path.mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            write_new(path, text, PUBLIC if path == self.ca else SECRET)
        return list(texts)

    def add(self, name: str, names: Iterable[str], days: int, *, is_server: bool) -> Path:
        """One more certificate of this CA."""
        if not NAME.fullmatch(name):
            raise CommandError(
                f"{name!r} is no name: letters, digits, dots, dashes and underscores, at most 60", MISUSED
            )
        path = self.node(name) if is_server else self.client(name)
        if path.exists():
            raise CommandError(f"{path} exists, and nothing is overwritten: choose another name, or move it away")
        all_names = [*local_names(), *names] if is_server else []
        write_new(path, self.authority().issue(name, all_names, is_server=is_server, days=days).store, SECRET)
        return path

    def authority(self) -> Authority:
        try:
            return Authority.load(self.ca_key.read_bytes(), self.ca.read_bytes())
        except OSError as error:
            raise CommandError(
                f"{error.filename} cannot be read: {error.strerror}; 'ottla security init --dir {self.path}' makes it"
            ) from None
        except ValueError:
            raise CommandError(f"{self.ca_key} or {self.ca} is no PEM of a certificate authority") from None

    def password(self) -> str:
        """The admin's."""
        try:
            return self.admin_password.read_text().rstrip("\r\n")
        except OSError as error:
            raise CommandError(f"{self.admin_password} cannot be read: {error.strerror}") from None

    def client_settings(self, user: str, password: str) -> dict[str, str]:
        """How a client logs in, under Kafka's names."""
        quoted = password.replace("\\", "\\\\").replace('"', '\\"')
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM,
            "sasl.jaas.config": f'{SCRAM_MODULE} required username="{user}" password="{quoted}";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca),
        }

    def client_text(self, user: str, password: str) -> str:
        lines = [f"{name}={_escaped(value)}" for name, value in self.client_settings(user, password).items()]
        return "\n".join([f"# Clients that log in as {user}: --command-config, --producer.config, ...", *lines, ""])

    def node_settings(self, name: str, node_names: Iterable[str], secured: Iterable[str]) -> dict[str, str]:
        """Settings of a node: its certificate, SCRAM on SASL_SSL, client certificates of nodes on the listeners that
        are `secured` by them, and ACLs."""
        super_users = [f"User:{ADMIN}", *(f"User:CN={one}" for one in node_names)]
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.node(name)),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca),
            **{f"listener.name.{listener.lower()}.ssl.client.auth": "required" for listener in secured},
            "sasl.enabled.mechanisms": MECHANISM,
            f"listener.name.sasl_ssl.{MECHANISM.lower()}.sasl.jaas.config": f"{SCRAM_MODULE} required;",
            "authorizer.class.name": AUTHORIZER,
            "super.users": ";".join(super_users),
        }

    # Which cluster of this machine uses the folder, so that commands find it by themselves

    def announce(self, brokers: str) -> None:
        """Commands in the folder above this one use these brokers, unless they name others."""
        fresh = self.brokers.with_name(f"{self.brokers.name}.{os.getpid()}")
        fresh.write_text(f"{brokers}\n")
        fresh.replace(self.brokers)

    def announced(self) -> str | None:
        try:
            return self.brokers.read_text().strip() or None
        except OSError:
            return None

    def retract(self, brokers: str) -> None:
        """Remove the addresses of a stopped cluster. Those that another cluster announced meanwhile stay."""
        if self.announced() == brokers:
            self.brokers.unlink(missing_ok=True)


def write_new(path: Path, text: str, mode: int) -> None:
    """A new file; from its first moment no other user may read its secrets."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), mode)
        file.write(text)


def _escaped(value: str) -> str:
    """A value of a properties file."""
    return value.replace("\\", "\\\\")
