"""`ottla clusters`: names for clusters, so that `ottla --cluster prod topics list` has the address and the settings."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from ottla.cli.named_clusters import (
    FILE_VARIABLE,
    NAME,
    NamedCluster,
    NamedClusters,
    NamedClustersError,
    shown_settings,
)
from ottla.cli.output import TABLE, Column, emit, notice, write_document
from ottla.cli.session import (
    BROKER_VARIABLE,
    DEFAULT_BROKER,
    HELP,
    MISUSED,
    REGISTRY_URL,
    CommandError,
    add_output_option,
    add_yes_option,
    command_parser,
    confirm,
    file_settings,
    guarded,
    key_value,
    no_such,
    with_ports,
)

if TYPE_CHECKING:
    from ottla.cli.parser import Parser

COMMAND = "ottla clusters"
EXAMPLES = f"""\
  ottla clusters add dev -b 127.0.0.1:9092
  ottla clusters add prod -b kafka1.example.org,kafka2.example.org --command-config prod.properties
  ottla clusters add dev -b 127.0.0.1:9092 --registry http://127.0.0.1:8081
  ottla --cluster prod topics list              one command on prod
  ottla clusters use dev                        every command that names no cluster, from now on
  ottla clusters list
  ottla clusters show prod                      without its secrets
  ottla clusters remove prod

which cluster a command works on, the first of:
  --broker HOST[:PORT]          (with --cluster: that cluster's settings, at this address)
  --cluster CLUSTER
  {BROKER_VARIABLE} in the environment
  the current cluster           ('ottla clusters use')
  {DEFAULT_BROKER}

the file: {FILE_VARIABLE} in the environment, or ottla/clusters.toml in $XDG_CONFIG_HOME (~/.config)
"""


def parser() -> Parser:
    made = command_parser(COMMAND, "Clusters by name. Nothing here talks to a broker.", EXAMPLES)
    add_output_option(made)
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def subcommand(name: str, summary: str, examples: str) -> Parser:
        one: Parser = commands.add_parser(
            name,
            help=summary,
            description=f"{summary[:1].upper()}{summary[1:]}.",
            epilog=f"examples:\n{examples}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        add_output_option(one, is_subcommand=True)
        return one

    subcommand("list", "the clusters that have a name", "  ottla clusters list\n")
    add = subcommand(
        "add",
        "give a cluster a name",
        "  ottla clusters add dev -b 127.0.0.1:9092 --use\n"
        "  ottla clusters add prod -b kafka1.example.org --command-config prod.properties\n"
        "  ottla clusters add lab -b lab.example.org --set security.protocol=SSL\n",
    )
    add.add_argument("name", metavar="NEW_CLUSTER")
    add.add_argument(
        "-b", "--broker", "--bootstrap-server", dest="broker", required=True, metavar="HOST[:PORT]",
        help="any broker of the cluster, or several with commas",
    )  # fmt: skip
    add.add_argument(
        "--command-config", metavar="FILE", help="Kafka's client settings, as a properties file: its path is kept"
    )
    add.add_argument(
        "--set", dest="settings", type=key_value, action="append", default=[], metavar="NAME=VALUE",
        help="a client setting; may be repeated. Passwords are better off in --command-config: other users of this "
        "machine can read command lines",
    )  # fmt: skip
    add.add_argument(
        "--registry", metavar="URL", help="its schema registry: 'ottla consume', 'schemas', 'sql' and pipelines use it"
    )
    add.add_argument("--use", action="store_true", help="and make it the current cluster")
    add_yes_option(add)
    use = subcommand(
        "use",
        "choose the current cluster: commands that name no cluster use it",
        "  ottla clusters use dev\n  ottla clusters use --none\n",
    )
    use.add_argument("name", nargs="?", metavar="CLUSTER")
    use.add_argument("--none", action="store_true", help=f"no cluster is current: commands use {DEFAULT_BROKER} again")
    show = subcommand("show", "where a cluster is and its settings, without secrets", "  ottla clusters show prod\n")
    show.add_argument("name", nargs="?", metavar="CLUSTER", help="(the current one)")
    remove = subcommand("remove", "forget a name and its settings", "  ottla clusters remove prod\n")
    remove.add_argument("name", metavar="CLUSTER")
    add_yes_option(remove)
    return made


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments or HELP)
    work = {"list": list_clusters, "add": add, "use": use, "show": show, "remove": remove}[options.command]

    def begin() -> None:
        try:
            work(NamedClusters.read(), options)
        except NamedClustersError as error:
            raise CommandError(str(error), MISUSED) from None

    return guarded(COMMAND, begin)


def row_of(known: NamedClusters, name: str) -> dict[str, Any]:
    cluster = known.clusters[name]
    return {
        "name": name,
        "current": name == known.current,
        "brokers": cluster.brokers,
        "config": known.config_path(cluster),
        "settings": shown_settings(cluster.settings),
    }


def list_clusters(known: NamedClusters, options: argparse.Namespace) -> None:
    rows = [row_of(known, name) for name in sorted(known.clusters)]
    columns = [
        Column("current", "CURRENT", lambda is_current: "*" if is_current else ""),
        Column("name", "NAME"),
        Column("brokers", "BROKERS"),
        Column("config", "CONFIG"),
        Column("settings", "SETTINGS", lambda settings: ", ".join(settings)),
    ]
    emit(options.output, rows, columns, nothing="no clusters; name one: ottla clusters add NAME -b HOST:PORT")


def add(known: NamedClusters, options: argparse.Namespace) -> None:
    name = options.name
    if not NAME.fullmatch(name):
        raise CommandError(
            f"{name!r} is no name of a cluster: letters, digits, dots, dashes and underscores, at most 100", MISUSED
        )
    settings = dict(options.settings)
    if options.registry:
        settings[REGISTRY_URL] = options.registry
    config = None if options.command_config is None else os.path.abspath(options.command_config)
    refuse_unusable(with_ports(options.broker), {**file_settings(config), **settings})
    if name in known.clusters:
        confirm(f"replace the cluster {name}, which is {known.clusters[name].brokers}", options)
    known.clusters[name] = NamedCluster(with_ports(options.broker), config, settings)
    if options.use:
        known.current = name
    known.write()
    is_current = known.current == name
    hint = "it is the current cluster" if is_current else f"ottla --cluster {name} ..., or 'ottla clusters use {name}'"
    notice(f"{name} is {known.clusters[name].brokers} ({known.path}): {hint}")


def refuse_unusable(brokers: str, settings: dict[str, str]) -> None:
    """An address or a setting that no client takes is an error now, not at the first command."""
    from ottla.cli.session import Session, Target
    from ottla.client.config import AdminConfig

    AdminConfig.parse(Session(Target(brokers, settings)).settings_for(AdminConfig))
    if REGISTRY_URL in settings:
        from ottla.cli.registered import registry_settings

        registry_settings(None, settings)


def use(known: NamedClusters, options: argparse.Namespace) -> None:
    if options.none == (options.name is not None):
        raise CommandError("which cluster? its name, or --none", MISUSED)
    if options.name is not None:
        existing(known, options.name)
    known.current = options.name
    known.write()
    if options.name is None:
        notice(f"no cluster is current; commands use {DEFAULT_BROKER}")
    else:
        notice(f"{options.name} is the current cluster: {known.clusters[options.name].brokers}")
    if os.environ.get(BROKER_VARIABLE):
        notice(f"{BROKER_VARIABLE} is set, and counts over the current cluster")


def show(known: NamedClusters, options: argparse.Namespace) -> None:
    name = options.name or known.current
    if name is None:
        raise CommandError("no cluster is current: which one? 'ottla clusters list' shows those there are")
    existing(known, name)
    row = row_of(known, name)
    if options.output != TABLE:
        write_document(options.output, row)
        return
    print(f"{name}{'  (current)' if row['current'] else ''}")
    print(f"brokers   {row['brokers']}")
    if row["config"]:
        print(f"config    {row['config']}")
    for number, (key, value) in enumerate(row["settings"].items()):
        print(f"{'' if number else 'settings':<9} {key}={value}")
    if known.has_secrets and known.is_open_to_others:
        notice(f"warning: {known.path} holds secrets and others may read it: chmod 600 {known.path}")


def remove(known: NamedClusters, options: argparse.Namespace) -> None:
    existing(known, options.name)
    confirm(f"forget the cluster {options.name} and its settings", options)
    del known.clusters[options.name]
    if known.current == options.name:
        known.current = None
        notice("it was the current cluster; now none is")
    known.write()
    notice(f"{options.name} removed")


def existing(known: NamedClusters, name: str) -> None:
    if name not in known.clusters:
        raise no_such("cluster", name, known.clusters, "ottla clusters list")
