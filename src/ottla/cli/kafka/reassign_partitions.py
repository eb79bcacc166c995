"""kafka-reassign-partitions: move partitions to other brokers and folders, and see how far that has got."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable

from ottla.cli.kafka.connection import connect
from ottla.cli.kafka.controller_link import ControllerAdmin
from ottla.cli.kafka.failures import execution_failure, failure_of
from ottla.cli.kafka.json_input import ADMIN_FAILED, ADMIN_OPERATION, read_text
from ottla.cli.kafka.options import (
    LONG,
    Exit,
    Option,
    OptionError,
    OptionParser,
    Options,
    ToolError,
    UsageError,
    show_usage,
)
from ottla.cli.kafka.reassignment_file import (
    Proposal,
    Replicas,
    check_proposal,
    format_replicas,
    parse_broker_list,
    parse_proposal,
    parse_topics,
    told,
)
from ottla.cli.replication_throttles import (
    FOLDER_RATE,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    broker_resources,
    removals,
    set_rates,
    throttle_topics,
    topic_resources,
)
from ottla.client.admin import Admin, Reassignment, ReplicaPlace
from ottla.client.admin.calls import errors_by_item
from ottla.client.errors import ErrorCode, KafkaError
from ottla.client.metadata import TopicPartition

PURPOSE = "This tool helps to move topic partitions between replicas."
TERSE = "org.apache.kafka.tools.TerseException"
ACTIONS = ("generate", "execute", "verify", "cancel", "list")
REQUIRED = {
    "verify": ("reassignment-json-file",),
    "generate": ("topics-to-move-json-file", "broker-list"),
    "execute": ("reassignment-json-file",),
    "cancel": ("reassignment-json-file",),
    "list": (),
}
PERMITTED = {
    "verify": ("bootstrap-server", "command-config", "preserve-throttles"),
    "generate": ("bootstrap-server", "broker-list", "command-config", "disable-rack-aware"),
    "execute": (
        "additional",
        "bootstrap-server",
        "command-config",
        "throttle",
        "replica-alter-log-dirs-throttle",
        "timeout",
        "disallow-replication-factor-change",
    ),
    "cancel": ("bootstrap-server", "bootstrap-controller", "command-config", "preserve-throttles", "timeout"),
    "list": ("bootstrap-server", "bootstrap-controller", "command-config"),
}
MOVE_PAUSE_S = 0.1


def option_parser() -> OptionParser:
    return OptionParser(
        Option(
            "bootstrap-server",
            "Any brokers of the cluster.",
            "Server(s) to use for bootstrapping",
            is_argument_optional=True,
        ),
        Option(
            "bootstrap-controller",
            "Any controllers of the cluster, for --list and --cancel.",
            "bootstrap controller to connect to",
            is_argument_optional=True,
        ),
        Option("command-config", "A properties file for the admin client.", "Admin client property file"),
        Option("generate", "Propose a reassignment; nothing is moved."),
        Option("execute", "Begin the reassignment of --reassignment-json-file."),
        Option("verify", "Show how far it has got; when all is done, remove the throttles."),
        Option("cancel", "Stop it."),
        Option("list", "Show all reassignments that go on."),
        Option(
            "reassignment-json-file",
            'What is to be where:\n{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2], '
            '"log_dirs": ["any", "any"]}]}\nlog_dirs may be left out; "any" leaves the folder to the broker.',
            "manual assignment json file path",
        ),
        Option(
            "topics-to-move-json-file",
            'What --generate is about:\n{"version": 1, "topics": [{"topic": "t"}]}',
            "topics to reassign json file path",
        ),
        Option("broker-list", "The brokers that --generate may use: 1,2,3.", "brokerlist"),
        Option("disable-rack-aware", "--generate takes no notice of racks."),
        Option("throttle", "At most so many bytes per second between brokers.", "throttle", LONG, default=-1),
        Option(
            "replica-alter-log-dirs-throttle",
            "At most so many bytes per second between folders of a broker.",
            "replicaAlterLogDirsThrottle",
            LONG,
            default=-1,
        ),
        Option("timeout", "How long to wait until moves between folders begin.", "timeout", LONG, default=10000),
        Option("additional", "Begin while other reassignments are under way; also changes the throttle of those."),
        Option("preserve-throttles", "Leave the throttles as they are."),
        Option("disallow-replication-factor-change", "Refuse to change the number of replicas."),
    )


def main(arguments: list[str]) -> int:
    parser = option_parser()
    try:
        options = parser.parse(arguments)
        action = _check(options)
    except UsageError as error:
        return show_usage(parser, error)
    except Exit as done:
        return done.code
    except OptionError as error:
        print(f'Exception in thread "main" {error.trace}', end="", file=sys.stderr)
        return 1
    try:
        asyncio.run(_run(options, action))
    except (ToolError, KafkaError) as error:
        failure = execution_failure(error) if isinstance(error, KafkaError) else error
        if failure.exception == TERSE:
            print(failure.message)
        else:
            print(f"Error: {failure.message}\n{failure.trace}")
        return 1
    return 0


def _check(options: Options) -> str:
    """Refuse options that exclude each other; returns the action."""
    options.help_or_version(PURPOSE)
    actions = [action for action in ACTIONS if options.has(action)]
    if len(actions) != 1:
        raise UsageError(f"Command must include exactly one action: {', '.join(f'--{one}' for one in ACTIONS)}")
    if options.has("bootstrap-server") and options.has("bootstrap-controller"):
        raise UsageError("Please don't specify both --bootstrap-server and --bootstrap-controller")
    if not options.has("bootstrap-server") and not options.has("bootstrap-controller"):
        raise UsageError("Please specify either --bootstrap-server or --bootstrap-controller")
    action = actions[0]
    options.require(*REQUIRED[action])
    for name in options.order(*options.parser.names):
        if name != action and name not in REQUIRED[action] and name not in PERMITTED[action]:
            raise UsageError(f'Option "[{name}]" can\'t be used with action "[{action}]"')
    return action


async def _run(options: Options, action: str) -> None:
    config = options.value("command-config") if options.has("command-config") else None
    kind: type[Admin] = ControllerAdmin if options.has("bootstrap-controller") else Admin
    given = options.value("bootstrap-controller" if options.has("bootstrap-controller") else "bootstrap-server")
    admin: Admin = connect(given or "", config, client_id="reassign-partitions-tool", kind=kind)
    async with admin:
        if action == "list":
            _show_reassignments(await admin.list_partition_reassignments())
            return
        text = read_text(options.value(REQUIRED[action][0]))
        if action == "generate":
            brokers = parse_broker_list(options.value("broker-list"))
            await generate(admin, parse_topics(text), brokers, knows_racks=not options.has("disable-rack-aware"))
            return
        proposal = parse_proposal(text)
        if action == "verify":
            await verify(admin, proposal, keeps_throttles=options.has("preserve-throttles"))
        elif action == "cancel":
            await cancel(admin, proposal, options)
        else:
            await execute(admin, proposal, options)


def _show_reassignments(found: dict[TopicPartition, Reassignment]) -> None:
    if not found:
        print("No partition reassignments found.")
        return
    print("Current partition reassignments:")
    for partition in sorted(found):
        one = found[partition]
        adding = f" adding: {_ids(one.adding)}." if one.adding else ""
        removing = f" removing: {_ids(one.removing)}." if one.removing else ""
        print(f"{told(partition)}: replicas: {_ids(one.replicas)}.{adding}{removing}")


# --- generate


async def generate(admin: Admin, topics: list[str], brokers: list[int], *, knows_racks: bool) -> None:
    from random import SystemRandom

    from ottla.controller.placement import Placer, UsableBroker

    current = await _replicas_of_topics(admin, topics)
    alive = [broker for broker in (await admin.describe_cluster()).brokers if broker.id in brokers]
    racks = [broker.rack if knows_racks else None for broker in alive]
    if knows_racks and None in racks and any(racks):
        raise ToolError(
            "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica "
            "assignment without rack information.",
            ADMIN_OPERATION,
        )
    proposed: Replicas = {}
    for topic in topics:
        partitions = sorted(partition for partition in current if partition.topic == topic)
        placer = Placer(
            [UsableBroker(broker.id, rack, False) for broker, rack in zip(alive, racks, strict=True)], SystemRandom()
        )
        if not alive:
            raise ToolError(
                "All brokers are currently fenced, or have all their log directories cordoned.",
                "org.apache.kafka.common.errors.InvalidReplicationFactorException",
            )
        try:
            proposed.update({one: placer.place(len(current[partitions[0]])) for one in partitions})
        except KafkaError as error:
            raise failure_of(error) from None
    print(f"Current partition replica assignment\n{format_replicas(current, await _folders(admin, current))}\n")
    print(f"Proposed partition reassignment configuration\n{format_replicas(proposed, {})}")


async def _replicas_of_topics(admin: Admin, topics: Iterable[str]) -> Replicas:
    found = await admin.list_topics(include_internal=True)
    for topic in topics:
        if topic not in found:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic {topic} not found.")
    return {
        TopicPartition(topic, one.partition): list(one.replicas) for topic in topics for one in found[topic].partitions
    }


async def _folders(admin: Admin, replicas: Replicas) -> dict[ReplicaPlace, str]:
    """The folders of the replicas at present."""
    brokers = sorted({broker for of in replicas.values() for broker in of})
    alive = [broker.id for broker in (await admin.describe_cluster()).brokers]
    described = await admin.describe_log_dirs([one for one in brokers if one in alive], replicas)
    return {
        ReplicaPlace(*partition, broker): folder.path
        for broker, folders in described.items()
        for folder in folders
        for partition, log in folder.replicas.items()
        if not log.is_future
    }


# --- execute


async def execute(admin: Admin, proposal: Proposal, options: Options) -> None:
    check_proposal(proposal)
    going_on = await admin.list_partition_reassignments()
    if going_on and not options.has("additional"):
        raise ToolError(
            "Cannot execute because there is an existing partition assignment.  Use --additional to override this and "
            "create a new partition assignment in addition to the existing one. The --additional flag can also be "
            "used to change the throttle by resubmitting the current reassignment.",
            TERSE,
        )
    alive = {broker.id for broker in (await admin.describe_cluster()).brokers}
    for broker in sorted({one for _, replicas in proposal.partitions for one in replicas}):
        if broker not in alive:
            raise ToolError(f"Unknown broker id {broker}", ADMIN_FAILED)
    wanted = proposal.replicas
    of_topics = await _replicas_of_topics(admin, dict.fromkeys(partition.topic for partition in wanted))
    missing = [told(partition) for partition in wanted if partition not in of_topics]
    if missing:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition: {', '.join(missing)}")
    current = {partition: of_topics[partition] for partition in wanted}
    print(
        f"Current partition replica assignment\n\n{format_replicas(current, await _folders(admin, current))}\n\n"
        "Save this to use as the --reassignment-json-file option during rollback"
    )
    await _throttle(admin, options, going_on, proposal, current)
    errors = await errors_by_item(
        admin.alter_partition_reassignments(
            wanted, may_change_replication_factor=not options.has("disallow-replication-factor-change")
        ),
        wanted,
    )
    if errors:
        lines = [f"{told(partition)}: {failure_of(errors[partition]).message}" for partition in sorted(errors)]
        raise ToolError("\n".join(["Error reassigning partition(s):", *lines]), TERSE)
    plural = "" if len(wanted) == 1 else "s"
    print(f"Successfully started partition reassignment{plural} for {','.join(map(told, sorted(wanted)))}")
    if proposal.folders:
        await _move(admin, proposal.folders, options.value("timeout"))


async def _throttle(
    admin: Admin,
    options: Options,
    going_on: dict[TopicPartition, Reassignment],
    proposal: Proposal,
    current: Replicas,
) -> None:
    between_brokers, between_folders = options.value("throttle"), options.value("replica-alter-log-dirs-throttle")
    if between_brokers < 0 and between_folders < 0:
        return
    print(
        "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is "
        "removed."
    )
    if between_brokers >= 0:
        moves: dict[TopicPartition, tuple[set[int], set[int]]] = {
            part: ({*one.replicas} - {*one.adding}, {*one.adding}) for part, one in going_on.items()
        }
        for partition, replicas in proposal.partitions:
            sources = moves[partition][0] if partition in moves else {*current[partition]}
            moves[partition] = (sources, {*replicas} - sources)
        await throttle_topics(admin, moves)
        brokers = sorted({broker for sources, targets in moves.values() for broker in (*sources, *targets)})
        await set_rates(admin, brokers, between_brokers, LEADER_RATE, FOLLOWER_RATE)
        print(f"The inter-broker throttle limit was set to {between_brokers} B/s")
    if between_folders >= 0:
        await set_rates(admin, sorted({one.broker_id for one in proposal.folders}), between_folders, FOLDER_RATE)
        print(f"The replica-alter-dir throttle limit was set to {between_folders} B/s")


async def _move(admin: Admin, folders: dict[ReplicaPlace, str], timeout_ms: int) -> None:
    """Begin moves between folders; a replica that is not there yet is asked for again until the time is over."""
    pending = dict(folders)
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + timeout_ms / 1000
    while True:
        errors = await errors_by_item(admin.alter_replica_log_dirs(pending), pending)
        for place in sorted(pending, key=lambda one: (one.broker_id, one.topic, one.partition)):
            error = errors.get(place)
            if error is not None and error.code is not ErrorCode.REPLICA_NOT_AVAILABLE:
                raise ToolError(f"Failed to alter dir for {_told_place(place)}", ADMIN_FAILED, execution_failure(error))
            if error is None:
                print(
                    f"Successfully started moving log directory to {pending[place]} for replica "
                    f"{place.topic}-{place.partition} with broker {place.broker_id} "
                )
        pending = {place: folder for place, folder in pending.items() if place in errors}
        if not pending:
            return
        if loop.time() >= ends_at:
            plural = "" if len(pending) == 1 else "s"
            raise ToolError(
                f"Timed out before log directory move{plural} could be started for: "
                f"{','.join(map(_told_place, sorted(pending)))}",
                TERSE,
            )
        await asyncio.sleep(MOVE_PAUSE_S)


# --- verify and cancel


async def verify(admin: Admin, proposal: Proposal, *, keeps_throttles: bool) -> None:
    going_on = await admin.list_partition_reassignments()
    topics = await admin.list_topics(include_internal=True)
    print("Status of partition reassignment:")
    for partition, wanted in sorted(proposal.replicas.items()):
        known = topics.get(partition.topic)
        here: tuple[int, ...] = ()
        if known is not None and partition.partition < len(known.partitions):
            here = known.partitions[partition.partition].replicas
        if partition in going_on:
            print(f"Reassignment of partition {told(partition)} is still in progress.")
        elif list(here) == wanted:
            print(f"Reassignment of partition {told(partition)} is completed.")
        else:
            print(
                f"There is no active reassignment of partition {told(partition)}, but replica set is {_ids(here)} "
                f"rather than {_ids(wanted)}."
            )
    are_moving = await _show_moves(admin, proposal)
    if not going_on and not are_moving and not keeps_throttles:
        await _clear_throttles(admin, proposal)


async def _show_moves(admin: Admin, proposal: Proposal) -> bool:
    """What has become of moves between folders; whether one goes on."""
    lines = []
    is_moving = False
    for place, (current, future) in (await _moves(admin, proposal.folders)).items():
        wanted = proposal.folders[place]
        partition = f"Partition {place.topic}-{place.partition}"
        if current is None:
            lines.append(
                f"{partition} is not found in any live log dir on broker {place.broker_id}. There is likely an "
                "offline log directory on the broker."
            )
        elif future is None and current == wanted:
            lines.append(f"Reassignment of replica {_told_place(place)} completed successfully.")
        elif future is None:
            lines.append(
                f"{partition} on broker {place.broker_id} is not being moved from log dir {current} to {wanted}."
            )
        else:
            is_moving = True
            if future == wanted:
                lines.append(f"Reassignment of replica {_told_place(place)} is still in progress.")
            else:
                lines.append(
                    f"{partition} on broker {place.broker_id} is being moved to log dir {future} instead of {wanted}."
                )
    print("\n".join(lines))
    return is_moving


async def _moves(admin: Admin, wanted: Iterable[ReplicaPlace]) -> dict[ReplicaPlace, tuple[str | None, str | None]]:
    """The folder each replica is in, and the one it is on its way to."""
    places = sorted(wanted, key=lambda one: (one.broker_id, one.topic, one.partition))
    if not places:
        return {}
    described = await admin.describe_log_dirs(dict.fromkeys(one.broker_id for one in places))
    found: dict[ReplicaPlace, tuple[str | None, str | None]] = {}
    for place in places:
        holding = [
            (folder.replicas[partition].is_future, folder.path)
            for folder in described[place.broker_id]
            for partition in [TopicPartition(place.topic, place.partition)]
            if partition in folder.replicas
        ]
        current = next((path for is_future, path in holding if not is_future), None)
        found[place] = current, next((path for is_future, path in holding if is_future), None)
    return found


async def cancel(admin: Admin, proposal: Proposal, options: Options) -> None:
    found = await admin.list_partition_reassignments(proposal.replicas)
    going_on = {partition: None for partition, one in sorted(found.items()) if not one.adding or one.removing}
    if going_on:
        plural = "" if len(going_on) == 1 else "s"
        errors = await errors_by_item(admin.alter_partition_reassignments(going_on), going_on)
        if errors:
            lines = [f"{told(partition)}: {failure_of(errors[partition]).message}" for partition in sorted(errors)]
            plural = "" if len(errors) == 1 else "s"
            raise ToolError("\n".join([f"Error cancelling partition reassignment{plural} for:", *lines]), TERSE)
        print(f"Successfully cancelled partition reassignment{plural} for: {','.join(map(told, going_on))}")
    else:
        print("None of the specified partition reassignments are active.")
    moving = {
        place: current
        for place, (current, future) in (await _moves(admin, proposal.folders)).items()
        if current is not None and future is not None
    }
    if moving:
        await _move(admin, moving, options.value("timeout"))
    else:
        print("None of the specified partition moves are active.", end="")
    if not options.has("preserve-throttles"):
        await _clear_throttles(admin, proposal)


async def _clear_throttles(admin: Admin, proposal: Proposal) -> None:
    alive = [broker.id for broker in (await admin.describe_cluster()).brokers]
    brokers = sorted({*alive, *(one for _, replicas in proposal.partitions for one in replicas)})
    print(f"Clearing broker-level throttles on broker{'' if len(brokers) == 1 else 's'} {_ids(brokers)}")
    await admin.alter_configs(
        dict.fromkeys(broker_resources(brokers), removals(LEADER_RATE, FOLLOWER_RATE, FOLDER_RATE))
    )
    topics = list(dict.fromkeys(partition.topic for partition, _ in proposal.partitions))
    print(f"Clearing topic-level throttles on topic{'' if len(topics) == 1 else 's'} {','.join(topics)}")
    await admin.alter_configs(dict.fromkeys(topic_resources(topics), removals(LEADER_REPLICAS, FOLLOWER_REPLICAS)))


# --- shared


def _ids(ids: Iterable[int]) -> str:
    return ",".join(map(str, ids))


def _told_place(place: ReplicaPlace) -> str:
    return f"{place.topic}-{place.partition}-{place.broker_id}"
