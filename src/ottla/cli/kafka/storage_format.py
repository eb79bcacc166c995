"""What `kafka-storage format` writes: meta.properties in every folder, and what a new cluster begins with.

Static voters stand in the settings. Dynamic ones (KIP-853) stand in the first snapshot of the metadata log, which is
written here when they are named; a node formatted without any waits to be let in.
"""

from __future__ import annotations

import os
import secrets
import time
from binascii import Error as BinasciiError
from binascii import a2b_base64
from collections.abc import Iterable, Mapping
from random import SystemRandom
from typing import NamedTuple

from ottla.broker.metadata.data_folder import BOOTSTRAP_CHECKPOINT, new_uuid, replace_file
from ottla.broker.metadata.snapshots import SnapshotId, encode_snapshot
from ottla.cli.kafka.options import ToolError, read_uuid, whole_number
from ottla.cluster import features
from ottla.raft.voters import Voter, Voters
from ottla.security.scram_keys import MAX_ITERATIONS, MIN_ITERATIONS, salt_password, scram_keys
from ottla.storage import MetaProperties, OsDisk, write_meta_properties
from ottla.wire import Message
from ottla.wire.internal_topics import METADATA_TOPIC
from ottla.wire.messages.records.feature_level_record import FeatureLevelRecord
from ottla.wire.messages.records.user_scram_credential_record import UserScramCredentialRecord

TERSE = "kafka.tools.TerseFailure"
RUNTIME = "java.lang.RuntimeException"
METADATA_LOG = f"{METADATA_TOPIC}-0"
SCRAM = {"SCRAM-SHA-256": (1, "sha256"), "SCRAM-SHA-512": (2, "sha512")}
SALT_BYTES = 24
UNSTABLE_RELEASE = "4.5-IV0"


class Layout(NamedTuple):
    """What the settings of a node say about its folders."""

    node_id: int
    roles: tuple[str, ...]
    folders: tuple[str, ...]
    metadata_folder: str
    static_voters: str
    controller_listeners: tuple[tuple[str, str, int], ...]

    @property
    def is_controller(self) -> bool:
        return "controller" in self.roles

    @property
    def all_folders(self) -> list[str]:
        return sorted({*self.folders, self.metadata_folder})


# --- features


def metadata_version(name: str, *, includes_unstable: bool = False) -> int:
    """The level of a release's name: 4.0-IV3, or 4.0 for the last of that release."""
    level = features.release_metadata_version(name)
    if level is None and includes_unstable and (name == UNSTABLE_RELEASE or UNSTABLE_RELEASE.startswith(f"{name}-")):
        return features.LATEST_METADATA_VERSION + 1
    if level is None:
        known = [*features.METADATA_VERSION_NAMES.values(), *([UNSTABLE_RELEASE] if includes_unstable else [])]
        raise ToolError(f"Unknown metadata.version '{name}'. Supported metadata.version are: {', '.join(known)}", TERSE)
    return level


def parse_features(given: Iterable[str]) -> dict[str, int]:
    """feature=level arguments."""
    found: dict[str, int] = {}
    for text in given:
        name, equals, level = text.partition("=")
        if not equals:
            raise ToolError(f"Can't parse feature=level string {text}: equals sign not found.", RUNTIME)
        try:
            found[name.strip()] = whole_number(16)(level.strip())
        except ValueError:
            raise ToolError(
                f"Can't parse feature=level string {text}: unable to parse {level} as a short.", RUNTIME
            ) from None
    return found


def planned_features(release: str | None, given: Mapping[str, int]) -> dict[str, int]:
    """The levels a new cluster begins with, metadata.version first."""
    others = {name: level for name, level in given.items() if name != features.METADATA_VERSION}
    default = features.FORMATTED_FEATURES[features.METADATA_VERSION]
    level = given.get(features.METADATA_VERSION, default) if release is None else metadata_version(release)
    for name, wanted in others.items():
        if name not in features.RELEASE_LEVELS:
            raise ToolError(
                f"Unsupported feature: {name}. Supported features are: {', '.join(sorted(features.RELEASE_LEVELS))}",
                TERSE,
            )
        if wanted not in features.SUPPORTED_FEATURES[name]:
            raise ToolError(f"No feature:{name} with feature level {wanted}")
    planned = {name: others.get(name, features.release_level(name, level)) for name in sorted(features.RELEASE_LEVELS)}
    for name, wanted in planned.items():
        for needed, least in features.FEATURE_DEPENDENCIES.get((name, wanted), {}).items():
            if (level if needed == features.METADATA_VERSION else planned[needed]) < least:
                raise ToolError(f"{name} could not be set to {wanted} because it depends on {needed} level {least}")
    return {features.METADATA_VERSION: level} | planned


# --- SCRAM credentials


def scram_record(text: str) -> UserScramCredentialRecord:
    """SCRAM-SHA-256=[name=alice,password=secret,iterations=8192,salt="...",saltedpassword="..."].

    As Kafka reads it: a password cannot hold a comma. What may be secret is not repeated in errors."""
    mechanism, equals, rest = text.strip().partition("=")
    if not equals:
        raise ToolError(f"Failed to find equals sign in SCRAM argument '{text.strip()}'", TERSE)
    if mechanism not in SCRAM:
        raise ToolError(f"The add-scram mechanism {mechanism} is not supported.", TERSE)
    if not rest.startswith("["):
        raise ToolError("Expected configuration string to start with [", TERSE)
    if not rest.endswith("]"):
        raise ToolError("Expected configuration string to end with ]", TERSE)
    given = _scram_components(rest[1:-1])
    name = given.pop("name", None)
    if name is None:
        raise ToolError("You must supply 'name' to add-scram", TERSE)
    salt = _base64("salt", given.pop("salt", None))
    iterations = _parse_iterations(given.pop("iterations", None))
    password, salted_text = given.pop("password", None), given.pop("saltedpassword", None)
    if password is None and salted_text is None:
        raise ToolError("You must supply one of 'password' or 'saltedpassword' to add-scram", TERSE)
    if password is None and salt is None:
        raise ToolError("You must supply 'salt' with 'saltedpassword' to add-scram", TERSE)
    salted = _base64("saltedPassword", salted_text) if password is None else None
    if given:
        raise ToolError(f"Unknown SCRAM configurations: {', '.join(sorted(given))}", TERSE)
    _check_iterations(iterations, mechanism)
    number, digest = SCRAM[mechanism]
    salt = secrets.token_bytes(SALT_BYTES) if salt is None else salt
    if salted is None:
        salted = salt_password(digest, password or "", salt, iterations)
    keys = scram_keys(digest, salted)
    return UserScramCredentialRecord(
        name=name,
        mechanism=number,
        salt=salt,
        stored_key=keys.stored_key,
        server_key=keys.server_key,
        iterations=iterations,
    )


def _scram_components(text: str) -> dict[str, str]:
    given: dict[str, str] = {}
    # Java's split leaves out empty parts at the end.
    for component in text.rstrip(",").split(","):
        name, equals, value = component.partition("=")
        if not equals:
            raise ToolError("No equals sign found in SCRAM component: [hidden]", TERSE)
        if len(value) >= 2 and value.startswith('"') and value.endswith('"'):
            value = value[1:-1]
        given[name] = value
    return given


def _parse_iterations(text: str | None) -> int:
    if text is None:
        return MIN_ITERATIONS
    try:
        return whole_number(32)(text)
    except ValueError:
        raise ToolError(f"Failed to parse iterations count: {text}", TERSE) from None


def _check_iterations(iterations: int, mechanism: str) -> None:
    named = mechanism.replace("-", "_")
    if iterations < MIN_ITERATIONS:
        raise ToolError(f"The 'iterations' value must be >= {MIN_ITERATIONS} for add-scram using {named}", TERSE)
    if iterations > MAX_ITERATIONS:
        raise ToolError(f"The 'iterations' value must be <= {MAX_ITERATIONS} for add-scram using {named}", TERSE)


def _base64(what: str, text: str | None) -> bytes | None:
    if text is None:
        return None
    try:
        return a2b_base64(text, strict_mode=True)
    except BinasciiError:
        raise ToolError(f"Failed to decode given {what}: [hidden]", TERSE) from None


# --- voters


def parse_voters(text: str) -> list[Voter]:
    """id@host:port:directory-id, separated by commas."""
    return [_voter(one.strip()) for one in text.split(",")]


def _voter(text: str) -> Voter:
    node_id, at, rest = text.partition("@")
    if not at:
        raise ToolError("No @ found in dynamic voter string.")
    address, _, directory = rest.rpartition(":")
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        raise ToolError(f"No host:port:directory found in dynamic voter string {text}.")
    if not node_id.isdigit():
        raise ToolError(f"Failed to parse node id in dynamic voter string {text}.")
    return Voter(int(node_id), read_uuid(directory), (("CONTROLLER", host.strip("[]"), int(port)),))


# --- writing


def write_folders(
    layout: Layout,
    unformatted: list[str],
    cluster_id: str,
    planned: Mapping[str, int],
    scram: list[UserScramCredentialRecord],
    initial_voters: list[Voter] | None,
    *,
    is_standalone: bool,
) -> None:
    """Format these folders; the one with the metadata log last, because its file shows that formatting is complete."""
    disk = OsDisk()
    rng = SystemRandom()
    level = planned[features.METADATA_VERSION]
    records: list[Message] = [
        FeatureLevelRecord(name=name, feature_level=to)
        for name, to in planned.items()
        if to and name != features.KRAFT_VERSION
    ]
    records += scram
    print(f"Bootstrap metadata: {told_bootstrap(records, level)}")
    version = features.METADATA_VERSION_NAMES[level]
    for folder in sorted(unformatted, key=lambda one: (one == layout.metadata_folder, one)):
        is_metadata = folder == layout.metadata_folder
        directory_id = new_uuid(rng)
        voters: list[Voter] | None = None
        what = "metadata" if is_metadata else "data"
        if is_metadata and is_standalone:
            name, host, port = layout.controller_listeners[0]
            voters = [Voter(layout.node_id, directory_id, ((name, host, port),))]
            what = "dynamic metadata voter"
        elif is_metadata and initial_voters is not None:
            voters = [_named(voter, layout) for voter in initial_voters]
            own = next((voter for voter in voters if voter.id == layout.node_id), None)
            directory_id = directory_id if own is None else own.directory_id
            what = "dynamic metadata" if own is None else "dynamic metadata voter"
        print(f"Formatting {what} directory {folder} with metadata.version {version}.")
        os.makedirs(folder, exist_ok=True)
        write_meta_properties(disk, folder, MetaProperties(cluster_id, layout.node_id, directory_id))
        _write_snapshot(disk, folder, BOOTSTRAP_CHECKPOINT, records, level, None)
        if voters is not None:
            by_id = Voters(1, {voter.id: voter for voter in voters})
            os.makedirs(f"{folder}/{METADATA_LOG}", exist_ok=True)
            _write_snapshot(disk, f"{folder}/{METADATA_LOG}", SnapshotId(0, 0).name, [], level, by_id)


def _named(voter: Voter, layout: Layout) -> Voter:
    """A voter with the name of the listener that controllers have here."""
    name = layout.controller_listeners[0][0] if layout.controller_listeners else "CONTROLLER"
    return voter._replace(endpoints=tuple((name, host, port) for _, host, port in voter.endpoints))


def _write_snapshot(
    disk: OsDisk, folder: str, name: str, records: list[Message], level: int, voters: Voters | None
) -> None:
    batches = encode_snapshot(
        records,
        metadata_version=level,
        epoch=0,
        timestamp=time.time_ns() // 1_000_000,
        last_contained_timestamp=0,
        voters=voters,
    )
    replace_file(disk, folder, name, b"".join(batches))


def told_bootstrap(records: Iterable[Message], level: int) -> str:
    """As Kafka's tool prints it, without the secret parts of a credential."""
    told = []
    for record in records:
        if isinstance(record, FeatureLevelRecord):
            text = f"FeatureLevelRecord(name='{record.name}', featureLevel={record.feature_level})"
        else:
            assert isinstance(record, UserScramCredentialRecord)
            text = (
                f"UserScramCredentialRecord(name='{record.name}', mechanism={record.mechanism}, salt=[hidden], "
                f"storedKey=[hidden], serverKey=[hidden], iterations={record.iterations})"
            )
        told.append(f"ApiMessageAndVersion({text} at version 0)")
    return f"BootstrapMetadata(records=[{', '.join(told)}], metadataVersionLevel={level}, source=format command)"
