"""kafka-metadata-quorum: the leader and the voters of the controllers' quorum, and the log end offset of each."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import Any

from ottla.cli.kafka.connection import KAFKA_EXCEPTION, connect, read_properties
from ottla.cli.kafka.controller_link import ControllerAdmin
from ottla.cli.kafka.failures import execution_failure
from ottla.cli.kafka.options import INTEGER, ToolError, read_uuid
from ottla.cli.kafka.subcommands import (
    Argument,
    ArgumentError,
    Command,
    CommandParser,
    Exclusive,
    Group,
    HelpWanted,
)
from ottla.cli.kafka.tables import print_table
from ottla.client.admin import Admin, Endpoint, QuorumDescription, QuorumReplica
from ottla.client.errors import KafkaError, error_of
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse, Listener
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from ottla.wire.primitives import ZERO_UUID, uuid_text

TERSE = "org.apache.kafka.tools.TerseException"
ADD_TIMEOUT_MS = 30_000
HEAD = ("NodeId", "DirectoryId", "LogEndOffset", "Lag", "LastFetchTimestamp", "LastCaughtUpTimestamp", "Status")
VALID = "Is this a valid controller configuration file?"


class QuorumAdmin(Admin):
    """An admin client that also adds and removes voters."""

    async def add_voter(self, voter_id: int, directory_id: bytes, endpoints: list[Endpoint]) -> None:
        async def ask() -> None:
            request = AddRaftVoterRequest(
                cluster_id=None,
                timeout_ms=ADD_TIMEOUT_MS,
                voter_id=voter_id,
                voter_directory_id=directory_id,
                listeners=[Listener(name=one.name, host=one.host, port=one.port) for one in endpoints],
            )
            response: AddRaftVoterResponse = await self._ask_controller(request)
            if response.error_code:
                raise error_of(response.error_code, response.error_message)

        await self._one(ask)

    async def remove_voter(self, voter_id: int, directory_id: bytes) -> None:
        async def ask() -> None:
            request = RemoveRaftVoterRequest(cluster_id=None, voter_id=voter_id, voter_directory_id=directory_id)
            response: RemoveRaftVoterResponse = await self._ask_controller(request)
            if response.error_code:
                raise error_of(response.error_code, response.error_message)

        await self._one(ask)


class QuorumControllerAdmin(ControllerAdmin, QuorumAdmin):
    """A `QuorumAdmin` that connects to controllers (--bootstrap-controller)."""


def command_parser() -> CommandParser:
    dry_run = Argument(("--dry-run",), "Only show what would be done.", is_flag=True)
    return CommandParser(
        "kafka-metadata-quorum",
        "Shows the quorum of controllers; adds and removes voters.",
        [Argument(("--command-config",), "A properties file for the admin client, and for add-controller.")],
        [
            Command(
                "describe",
                "Show the quorum.",
                groups=[
                    Group("Status", [Argument(("--status",), "The leader, the voters and their lag.", is_flag=True)]),
                    Group(
                        "Replication",
                        [
                            Argument(("--replication",), "How far every voter and observer has got.", is_flag=True),
                            Argument(("--human-readable",), "Times as a person says them.", is_flag=True),
                        ],
                    ),
                ],
            ),
            Command("add-controller", "Let a controller vote.", [dry_run]),
            Command(
                "remove-controller",
                "Let a controller vote no more.",
                [
                    Argument(("--controller-id", "-i"), "Its id.", kind=INTEGER, is_required=True),
                    Argument(("--controller-directory-id", "-d"), "The id of its folder.", is_required=True),
                    dry_run,
                ],
            ),
        ],
        Exclusive(
            [
                Argument(("--bootstrap-server",), "Any brokers of the cluster."),
                Argument(("--bootstrap-controller",), "Any controllers of the cluster."),
            ],
            is_required=True,
        ),
    )


def main(arguments: list[str]) -> int:
    parser = command_parser()
    try:
        parsed = parser.parse(arguments)
        _check_there(parsed.values["command_config"])
        asyncio.run(_run(parsed.command or "", parsed.values))
    except HelpWanted as wanted:
        parser.show_help(wanted)
    except ArgumentError as error:
        return parser.show_error(error)
    except (ToolError, KafkaError) as error:
        failure = execution_failure(error) if isinstance(error, KafkaError) else error
        print(failure.message, file=sys.stderr)
        if failure.exception != TERSE:
            print(failure.trace, file=sys.stderr)
        return 1
    return 0


def _check_there(path: str | None) -> None:
    if path is not None and not os.path.exists(path):
        raise ToolError(f"Properties file {path} does not exists!", TERSE)


async def _run(command: str, values: dict[str, Any]) -> None:
    config = values["command_config"]
    controller = values["bootstrap_controller"]
    kind: type[Admin] = QuorumAdmin if controller is None else QuorumControllerAdmin
    admin: QuorumAdmin = connect(controller or values["bootstrap_server"], config, kind=kind)
    async with admin:
        if command == "describe":
            await describe(admin, values)
        elif command == "add-controller":
            if config is None:
                raise ToolError(
                    "You must supply the configuration file of the controller you are adding when using "
                    "add-controller.",
                    TERSE,
                )
            await add_controller(admin, read_properties(config), is_dry_run=values["dry_run"])
        else:
            await remove_controller(admin, values)


# --- describe


async def describe(admin: Admin, values: dict[str, Any]) -> None:
    if values["status"] and values["replication"]:
        raise ToolError("Only one of --status or --replication should be specified with describe sub-command", TERSE)
    if values["status"] and values["human_readable"]:
        raise ToolError("The option --human-readable is only supported along with --replication", TERSE)
    if values["replication"]:
        _show_replication(await admin.describe_quorum(), is_relative=values["human_readable"])
    elif values["status"]:
        cluster_id = (await admin.describe_cluster()).cluster_id
        _show_status(cluster_id, await admin.describe_quorum())
    else:
        raise ToolError("One of --status or --replication must be specified with describe sub-command", TERSE)


def _show_status(cluster_id: str, quorum: QuorumDescription) -> None:
    leader = _leader(quorum)
    last = min(quorum.voters, key=lambda voter: voter.log_end_offset)
    lag_ms = 0
    if last is not leader:
        are_known = leader.last_caught_up_timestamp >= 0 and last.last_caught_up_timestamp >= 0
        lag_ms = leader.last_caught_up_timestamp - last.last_caught_up_timestamp if are_known else -1
    print(f"ClusterId:              {cluster_id}")
    print(f"LeaderId:               {quorum.leader_id}")
    print(f"LeaderEpoch:            {quorum.leader_epoch}")
    print(f"HighWatermark:          {quorum.high_watermark}")
    print(f"MaxFollowerLag:         {leader.log_end_offset - last.log_end_offset}")
    print(f"MaxFollowerLagTimeMs:   {lag_ms}")
    print(f"CurrentVoters:          {_told(quorum, quorum.voters)}")
    print(f"CurrentObservers:       {_told(quorum, quorum.observers)}")


def _show_replication(quorum: QuorumDescription, *, is_relative: bool) -> None:
    leader = _leader(quorum)
    followers = [voter for voter in quorum.voters if voter is not leader]
    rows = []
    for status, replicas in (("Leader", [leader]), ("Follower", followers), ("Observer", quorum.observers)):
        for one in replicas:
            rows.append(
                (
                    one.replica_id,
                    uuid_text(one.directory_id),
                    one.log_end_offset,
                    leader.log_end_offset - one.log_end_offset,
                    _moment(one.last_fetch_timestamp, "last fetch", is_relative=is_relative),
                    _moment(one.last_caught_up_timestamp, "last caught up", is_relative=is_relative),
                    status,
                )
            )
    print_table(HEAD, rows)


def _leader(quorum: QuorumDescription) -> QuorumReplica:
    for voter in quorum.voters:
        if voter.replica_id == quorum.leader_id:
            return voter
    raise ToolError("No value present", "java.util.NoSuchElementException")


def _moment(timestamp: int, what: str, *, is_relative: bool) -> str:
    if timestamp < 0:
        return "-1"
    if not is_relative:
        return str(timestamp)
    now = time.time_ns() // 1_000_000
    if timestamp > now:
        raise ToolError(
            "Error while computing relative time, possible drift in system clock.\n"
            f"Current timestamp is {now}, {what} timestamp is {timestamp}",
            KAFKA_EXCEPTION,
        )
    return f"{now - timestamp} ms ago"


def _told(quorum: QuorumDescription, replicas: tuple[QuorumReplica, ...]) -> str:
    nodes = []
    for one in replicas:
        parts = [f'"id": {one.replica_id}']
        if one.directory_id != ZERO_UUID:
            parts.append(f'"directoryId": "{uuid_text(one.directory_id)}"')
        endpoints = quorum.endpoints.get(one.replica_id, ())
        if endpoints:
            listed = ", ".join(f'"{_told_endpoint(endpoint)}"' for endpoint in endpoints)
            parts.append(f'"endpoints": [{listed}]')
        nodes.append(f"{{{', '.join(parts)}}}")
    return f"[{', '.join(nodes)}]"


def _told_endpoint(endpoint: Endpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{endpoint.name}://{host}:{endpoint.port}"


# --- who votes


async def add_controller(admin: QuorumAdmin, properties: dict[str, str], *, is_dry_run: bool) -> None:
    controller_id = _controller_id(properties)
    directory_id = _directory_id(properties)
    endpoints = _controller_endpoints(properties)
    if not is_dry_run:
        await admin.add_voter(controller_id, read_uuid(directory_id), endpoints)
    print(
        f"{'DRY RUN of adding' if is_dry_run else 'Added'} controller {controller_id} with directory id {directory_id} "
        f"and endpoints: {', '.join(map(_told_endpoint, endpoints))}"
    )


def _controller_id(properties: dict[str, str]) -> int:
    if "node.id" not in properties:
        raise ToolError(f"node.id not found in configuration file. {VALID}", TERSE)
    try:
        node_id = int(properties["node.id"])
    except ValueError:
        raise ToolError(f'For input string: "{properties["node.id"]}"', "java.lang.NumberFormatException") from None
    if node_id < 0:
        raise ToolError(f"node.id was negative in configuration file. {VALID}", TERSE)
    if "controller" not in properties.get("process.roles", ""):
        raise ToolError(f"process.roles did not contain 'controller' in configuration file. {VALID}", TERSE)
    return node_id


def _directory_id(properties: dict[str, str]) -> str:
    folder = properties.get("metadata.log.dir") or properties.get("log.dirs", "").strip().split(",")[0]
    if not folder:
        raise ToolError(f"Neither metadata.log.dir nor log.dirs were found. {VALID}", TERSE)
    try:
        meta = read_properties(os.path.join(folder, "meta.properties"))
    except ToolError:
        raise ToolError(f"Unable to read meta.properties from {folder}", TERSE) from None
    if "directory.id" not in meta:
        raise ToolError(f"No directory id found in {folder}", TERSE)
    return meta["directory.id"]


def _controller_endpoints(properties: dict[str, str]) -> list[Endpoint]:
    known: dict[str, Endpoint] = {}
    for setting in ("listeners", "advertised.listeners"):
        for listener in filter(None, (one.strip() for one in properties.get(setting, "").split(","))):
            name, _, address = listener.partition("://")
            host, _, port = address.rpartition(":")
            known[name.upper()] = Endpoint(name.upper(), host.strip("[]") or "localhost", int(port))
    if "controller.listener.names" not in properties:
        raise ToolError(f"controller.listener.names was not found. {VALID}", TERSE)
    endpoints = []
    for name in properties["controller.listener.names"].split(","):
        if name.strip().upper() not in known:
            raise ToolError(f"Cannot find information about controller listener name: {name.strip().upper()}", TERSE)
        endpoints.append(known[name.strip().upper()])
    return endpoints


async def remove_controller(admin: QuorumAdmin, values: dict[str, Any]) -> None:
    controller_id = values["controller_id"]
    if controller_id < 0:
        raise ToolError(f"Invalid negative --controller-id: {controller_id}", TERSE)
    try:
        directory_id = read_uuid(values["controller_directory_id"])
    except ToolError as error:
        raise ToolError(f"Failed to parse --controller-directory-id: {error.message}", TERSE) from None
    if not values["dry_run"]:
        await admin.remove_voter(controller_id, directory_id)
    print(
        f"{'DRY RUN of removing ' if values['dry_run'] else 'Removed '} KRaft controller {controller_id} "
        f"with directory id {uuid_text(directory_id)}"
    )
