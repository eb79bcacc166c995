"""What `--secure` adds to a node of this machine: its settings and its first user, from a folder of `ottla security`.

Everything that the file or the command line says goes over it. A folder that does not exist is made.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Mapping
from pathlib import Path

from ottla.cli.certificates import DAYS
from ottla.cli.output import notice
from ottla.cli.security_folder import ADMIN, DEFAULT, MECHANISM, SecurityFolder

INTERNAL, CONTROLLER = "INTERNAL", "CONTROLLER"
FIRST_NODES = 3
"""Certificates that a new folder gets."""
ITERATIONS = 8192
SALT_BYTES = 24
SCRAM_SHA_512 = 2


def security_folder(path: str, nodes: int) -> SecurityFolder:
    """The folder, with certificates for so many nodes; missing ones are made."""
    folder = SecurityFolder(Path(path))
    if not folder.exists:
        folder.make(max(nodes, FIRST_NODES))
        notice(f"made a CA, certificates and the user {ADMIN} in {_near(folder.path)} ('ottla security --help')")
    for number in range(1, nodes + 1):
        if not folder.node(f"node-{number}").exists():
            folder.add(f"node-{number}", [], DAYS, is_server=True)
    return folder


def node_name(node_id: int) -> str:
    return f"node-{node_id}"


def alone_settings(folder: SecurityFolder, node_id: int) -> dict[str, str]:
    """For a node without others: clients log in to its only listener."""
    name = node_name(node_id)
    return {
        **folder.node_settings(name, [name], []),
        "inter.broker.listener.name": "SASL_SSL",
        "listener.security.protocol.map": f"SASL_SSL:SASL_SSL,{CONTROLLER}:SSL",
    }


def cluster_settings(
    folder: SecurityFolder,
    node_id: int,
    ports: Mapping[int, int],
    internal_ports: Mapping[int, int],
    controller_ports: Mapping[int, int],
) -> dict[str, str]:
    """For one of several nodes on 127.0.0.1: clients log in, nodes recognise each other by certificates."""
    names = [node_name(one) for one in ports]
    return {
        "listeners": f"SASL_SSL://127.0.0.1:{ports[node_id]},{INTERNAL}://127.0.0.1:{internal_ports[node_id]},"
        f"{CONTROLLER}://127.0.0.1:{controller_ports[node_id]}",
        "listener.security.protocol.map": f"SASL_SSL:SASL_SSL,{INTERNAL}:SSL,{CONTROLLER}:SSL",
        "inter.broker.listener.name": INTERNAL,
        **folder.node_settings(node_name(node_id), names, [INTERNAL, CONTROLLER]),
    }


def write_first_user(folder: SecurityFolder, log_dir: str) -> None:
    """Let a new cluster begin with the user `admin`, as `kafka-storage format --add-scram` does. A folder that is
    formatted already keeps what it has."""
    from ottla.broker.metadata.data_folder import BOOTSTRAP_CHECKPOINT, formatted_records, replace_file
    from ottla.broker.metadata.snapshots import encode_snapshot
    from ottla.cluster.features import FORMATTED_FEATURES, METADATA_VERSION
    from ottla.security.scram_keys import salt_password, scram_keys
    from ottla.storage import OsDisk
    from ottla.wire.messages.records.user_scram_credential_record import UserScramCredentialRecord

    if any(os.path.exists(os.path.join(log_dir, name)) for name in (BOOTSTRAP_CHECKPOINT, "meta.properties")):
        return
    assert MECHANISM == "SCRAM-SHA-512"
    salt = secrets.token_bytes(SALT_BYTES)
    keys = scram_keys("sha512", salt_password("sha512", folder.password(), salt, ITERATIONS))
    credential = UserScramCredentialRecord(
        name=ADMIN,
        mechanism=SCRAM_SHA_512,
        salt=salt,
        stored_key=keys.stored_key,
        server_key=keys.server_key,
        iterations=ITERATIONS,
    )
    os.makedirs(log_dir, exist_ok=True)
    batches = encode_snapshot(
        [*formatted_records(), credential],
        metadata_version=FORMATTED_FEATURES[METADATA_VERSION],
        epoch=0,
        timestamp=time.time_ns() // 1_000_000,
        last_contained_timestamp=0,
    )
    replace_file(OsDisk(), log_dir, BOOTSTRAP_CHECKPOINT, b"".join(batches))


def connecting(folder: SecurityFolder, brokers: str) -> str:
    """How clients reach the cluster."""
    where = _near(folder.client_properties)
    lines = [f"clients: bootstrap.servers={brokers}, and the settings of {where}"]
    if folder.path == Path(DEFAULT).resolve():
        lines.append("  ottla topics list                       in this folder, commands find them by themselves")
    else:
        lines.append(f"  ottla topics list -b {brokers} --command-config {where}")
    lines += [
        "  ottla users add alice                   another user",
        "  ottla acls grant alice --producer topic orders",
    ]
    return "\n".join(lines)


def no_first_user(folder: SecurityFolder) -> str:
    return (
        f"this data has no user {ADMIN}: it was made without --secure. Start once without it, then 'ottla users add "
        f"{ADMIN} --password-file {_near(folder.admin_password)}', and start with --secure again"
    )


def _near(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
