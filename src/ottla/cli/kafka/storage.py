"""kafka-storage: format a node's folders, see what is in them, and look up which release has which features."""

from __future__ import annotations

import os
import sys
from typing import Any

from ottla.cli.kafka.connection import CONFIG_EXCEPTION, read_properties
from ottla.cli.kafka.options import ToolError, whole_number
from ottla.cli.kafka.subcommands import Argument, ArgumentError, Command, CommandParser, Exclusive, HelpWanted

TERSE = "kafka.tools.TerseFailure"
DEFAULT_FOLDER = "/tmp/kafka-logs"


def command_parser() -> CommandParser:
    config = Argument(("--config", "-c"), "The node's server.properties.", is_required=True)
    release = "A release such as 4.0 or 4.0-IV3; the default is 4.3-IV0, the newest 4.4-IV2, the oldest 3.3-IV3."
    return CommandParser(
        "kafka-storage",
        "Formats the folders of a node, and shows what is in them.",
        commands=[
            Command("info", "Show the node and the cluster of the folders.", [config]),
            Command(
                "format",
                "Format the folders.",
                [
                    config,
                    Argument(("--cluster-id", "-t"), "The cluster's id, as random-uuid makes one.", is_required=True),
                    Argument(
                        ("--add-scram", "-S"),
                        "A SCRAM credential that the cluster begins with: "
                        "SCRAM-SHA-256=[name=alice,password=alice-secret]",
                        is_repeated=True,
                    ),
                    Argument(
                        ("--ignore-formatted", "-g"),
                        "Leave out folders that are formatted, in place of an error.",
                        is_flag=True,
                    ),
                    Argument(("--release-version", "-r"), release),
                    Argument(("--feature", "-f"), "The level of a feature, such as group.version=1.", is_repeated=True),
                ],
                exclusive=Exclusive(
                    [
                        Argument(("--standalone", "-s"), "This controller is the only voter.", is_flag=True),
                        Argument(
                            ("--no-initial-controllers", "-N"), "Name no voters: this node joins others.", is_flag=True
                        ),
                        Argument(
                            ("--initial-controllers", "-I"),
                            "The voters: id@host:port:directory-id, separated by commas, the same on every node.",
                        ),
                    ]
                ),
            ),
            Command(
                "version-mapping",
                "Show the features that a release begins with.",
                [Argument(("--release-version", "-r"), release)],
            ),
            Command(
                "feature-dependencies",
                "Show which other features a level needs.",
                [
                    Argument(
                        ("--feature", "-f"),
                        "A feature and its level, such as group.version=1.",
                        is_required=True,
                        is_repeated=True,
                    )
                ],
            ),
            Command("random-uuid", "Make an id for a cluster."),
        ],
    )


def main(arguments: list[str]) -> int:
    parser = command_parser()
    try:
        parsed = parser.parse(arguments)
        return _run(parsed.command or "", parsed.values)
    except HelpWanted as wanted:
        parser.show_help(wanted)
        return 0
    except ArgumentError as error:
        return parser.show_error(error)
    except ToolError as error:
        if error.exception == TERSE:
            print(error.message, file=sys.stderr)
        else:
            print(f'Exception in thread "main" {error.trace}', end="", file=sys.stderr)
        return 1


def _run(command: str, values: dict[str, Any]) -> int:
    if command == "random-uuid":
        print(random_uuid())
        return 0
    if command == "info":
        return info(read_properties(values["config"]))
    if command == "format":
        format_folders(read_properties(values["config"]), values)
    elif command == "version-mapping":
        show_versions(values["release_version"])
    else:
        show_dependencies(values["feature"])
    return 0


def random_uuid() -> str:
    from random import SystemRandom

    from ottla.broker.metadata.data_folder import new_uuid
    from ottla.wire.primitives import uuid_text

    return uuid_text(new_uuid(SystemRandom()))


# --- info


def folders_of(properties: dict[str, str]) -> tuple[tuple[str, ...], str]:
    """The log dirs, and the one with the metadata log."""
    text = properties.get("log.dirs") or properties.get("log.dir") or DEFAULT_FOLDER
    folders = tuple(one.strip() for one in text.split(",") if one.strip())
    return folders, properties.get("metadata.log.dir") or folders[0]


def check_settings(properties: dict[str, str]) -> int:
    """The node's id; without it and its roles there is nothing to format."""
    for name in ("process.roles", "node.id"):
        if name not in properties and not (name == "node.id" and "broker.id" in properties):
            raise ToolError(f'Missing required configuration "{name}" which has no default value.', CONFIG_EXCEPTION)
    node_id = properties.get("node.id") or properties["broker.id"]
    try:
        return whole_number(32)(node_id.strip())
    except ValueError:
        raise ToolError(
            f"Invalid value {node_id} for configuration node.id: Not a number of type INT", CONFIG_EXCEPTION
        ) from None


def info(properties: dict[str, str]) -> int:
    check_settings(properties)
    folders, metadata_folder = folders_of(properties)
    there, problems, found = [], [], {}
    for folder in sorted({*folders, metadata_folder}):
        if not os.path.isdir(folder):
            problems.append(f"{folder} {'is not a directory' if os.path.exists(folder) else 'does not exist'}")
            continue
        there.append(folder)
        meta = _meta(folder)
        if meta is None:
            problems.append(f"{folder} is not formatted.")
        else:
            found[folder] = meta
    if len({meta.get("cluster.id") for meta in found.values()}) > 1:
        problems.append("Mismatched cluster IDs between storage directories.")
    if there:
        print("Found log directory:" if len(there) == 1 else "Found log directories:")
        print("".join(f"  {folder}\n" for folder in there))
    if found:
        meta = found[min(found)]
        print(f"Found metadata: {{{', '.join(f'{name}={meta[name]}' for name in sorted(meta))}}}\n")
    if problems:
        print("Found problem:" if len(problems) == 1 else "Found problems:")
        print("".join(f"  {problem}\n" for problem in problems))
    return 1 if problems else 0


def _meta(folder: str) -> dict[str, str] | None:
    path = os.path.join(folder, "meta.properties")
    return read_properties(path) if os.path.exists(path) else None


# --- format


def format_folders(properties: dict[str, str], values: dict[str, Any]) -> None:
    from ottla.cli.kafka.storage_format import (
        Layout,
        parse_features,
        parse_voters,
        planned_features,
        scram_record,
        write_folders,
    )
    from ottla.cluster.features import METADATA_VERSION, supports_scram

    node_id = check_settings(properties)
    folders, metadata_folder = folders_of(properties)
    layout = Layout(
        node_id,
        tuple(one.strip() for one in properties["process.roles"].split(",")),
        folders,
        metadata_folder,
        properties.get("controller.quorum.voters", "").strip(),
        controller_listeners(properties),
    )
    given = parse_features(values["feature"])
    _check_quorum(layout, values, given)
    planned = planned_features(values["release_version"], given)
    if values["add_scram"] and not supports_scram(planned[METADATA_VERSION]):
        raise ToolError("SCRAM is only supported in metadata.version 3.5-IV2 or later.", TERSE)
    scram = [scram_record(text) for text in values["add_scram"]]
    initial = None if values["initial_controllers"] is None else parse_voters(values["initial_controllers"])
    unformatted = _unformatted(layout, values["cluster_id"], ignores_formatted=values["ignore_formatted"])
    if not unformatted:
        print("All of the log directories are already formatted.")
        return
    write_folders(
        layout, unformatted, values["cluster_id"], planned, scram, initial, is_standalone=values["standalone"]
    )


def controller_listeners(properties: dict[str, str]) -> tuple[tuple[str, str, int], ...]:
    """Name, host and port of where the node's controller is reached."""
    found: dict[str, tuple[str, str, int]] = {}
    for setting in ("listeners", "advertised.listeners"):
        for listener in filter(None, (one.strip() for one in properties.get(setting, "").split(","))):
            name, _, address = listener.partition("://")
            host, _, port = address.rpartition(":")
            if port.isdigit() and (setting == "listeners" or name in found):
                found[name.upper()] = (name.upper(), host.strip("[]") or "localhost", int(port))
    names = [one.strip().upper() for one in properties.get("controller.listener.names", "").split(",")]
    return tuple(found[name] for name in names if name in found)


def _check_quorum(layout: Any, values: dict[str, Any], given: dict[str, int]) -> None:
    """The voters are named in one place: in the settings, or here."""
    says_here = values["standalone"] or values["initial_controllers"] is not None
    if values["standalone"] and not layout.is_controller:
        raise ToolError("You can only use --standalone on a controller.", TERSE)
    if layout.static_voters and says_here:
        raise ToolError(
            "You cannot specify controller.quorum.voters and format the node with --initial-controllers or "
            "--standalone. If you want to use dynamic quorum, please remove controller.quorum.voters and specify "
            "controller.quorum.bootstrap.servers instead.",
            TERSE,
        )
    is_dynamic = says_here or values["no_initial_controllers"]
    if layout.is_controller and not layout.static_voters and not is_dynamic:
        raise ToolError(
            "Because controller.quorum.voters is not set on this controller, you must specify one of the following: "
            "--standalone, --initial-controllers, or --no-initial-controllers.",
            TERSE,
        )
    if not layout.static_voters and is_dynamic and given.get("kraft.version") == 0:
        raise ToolError(
            "Cannot set kraft.version to 0 if controller.quorum.voters is empty and one of the flags --standalone, "
            "--initial-controllers, or --no-initial-controllers is used. For dynamic controllers support, try removing "
            "the --feature flag for kraft.version.",
            TERSE,
        )


def _unformatted(layout: Any, cluster_id: str, *, ignores_formatted: bool) -> list[str]:
    """The folders to format; folders that are formatted already must be of this node and this cluster."""
    unformatted = []
    for folder in layout.all_folders:
        meta = _meta(folder)
        if meta is None:
            unformatted.append(folder)
            continue
        path = f"{folder}/meta.properties"
        if meta.get("cluster.id") != cluster_id:
            raise ToolError(
                f"Invalid cluster.id in: {path}. Expected {cluster_id}, but read {meta.get('cluster.id')}",
                "java.lang.RuntimeException",
            )
        if meta.get("node.id") != str(layout.node_id):
            raise ToolError(
                f"Stored node id {meta.get('node.id')} doesn't match previous node id {layout.node_id} in {path}. If "
                "you moved your data, make sure your configured node id matches. If you intend to create a new node, "
                "you should remove all data in your data directories.",
                "java.lang.RuntimeException",
            )
        if not ignores_formatted:
            raise ToolError(
                f"Log directory {folder} is already formatted. Use --ignore-formatted to ignore this directory and "
                "format the others.",
                TERSE,
            )
    return unformatted


# --- features


def show_versions(release: str | None) -> None:
    from ottla.cli.kafka.storage_format import metadata_version
    from ottla.cluster import features

    name = release or features.METADATA_VERSION_NAMES[features.FORMATTED_FEATURES[features.METADATA_VERSION]]
    level = metadata_version(name, includes_unstable=True)
    print(f"metadata.version={level} ({name})")
    for feature in features.RELEASE_LEVELS:
        print(f"{feature}={features.release_level(feature, level)}")


def show_dependencies(given: list[str]) -> None:
    from ottla.cluster import features

    for text in given:
        name, equals, number = text.partition("=")
        if not equals or not number.strip().isdigit():
            raise ToolError(
                f"Invalid feature format: {text}. Expected format: 'feature=version' (e.g. 'group.version=1')", TERSE
            )
        level = int(number)
        if name not in features.SUPPORTED_FEATURES:
            raise ToolError(f"Unknown feature: {name}", TERSE)
        if level not in features.SUPPORTED_FEATURES[name]:
            raise ToolError(f"Feature level {level} is not supported for feature {name}", TERSE)
        needed = features.FEATURE_DEPENDENCIES.get((name, level), {})
        shown = _told_level(name, level)
        if not needed:
            print(f"{shown} has no dependencies.")
            continue
        print(f"{shown} requires:")
        for other, least in needed.items():
            print(f"    {_told_level(other, least)}")


def _told_level(name: str, level: int) -> str:
    from ottla.cluster import features

    release = f" ({features.METADATA_VERSION_NAMES[level]})" if name == features.METADATA_VERSION else ""
    return f"{name}={level}{release}"
