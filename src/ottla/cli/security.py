"""`ottla security`: certificates and a first user for a secured cluster, without openssl and keytool."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from ottla.cli.certificates import DAYS
from ottla.cli.output import TABLE, notice, write_document
from ottla.cli.security_folder import ADMIN, DEFAULT, SecurityFolder
from ottla.cli.session import HELP, MISUSED, CommandError, add_output_option, command_parser, guarded

COMMAND = "ottla security"
EXAMPLES = """\
  ottla security init                                 everything for a secured cluster, in ./security
  ottla security init --dir /etc/ottla --nodes 5 --name kafka.example.org --name 10.0.0.7
  ottla security node node-4 --name kafka4.example.org
  ottla security client billing                       a certificate for a client
  ottla start --secure                                a node that uses ./security
"""
MAX_NODES = 99
MAX_DAYS = 3_650


def parser() -> argparse.ArgumentParser:
    made = command_parser(COMMAND, "Certificates and a first user for a secured cluster.", EXAMPLES)
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def subcommand(name: str, summary: str, examples: str) -> argparse.ArgumentParser:
        one: argparse.ArgumentParser = commands.add_parser(
            name,
            help=summary,
            description=f"{summary[:1].upper()}{summary[1:]}.",
            epilog=f"examples:\n{examples}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        one.add_argument("--dir", default=DEFAULT, metavar="DIR", help=f"where the files are (./{DEFAULT})")
        one.add_argument("--days", type=int, default=DAYS, metavar="N", help=f"how long certificates hold ({DAYS})")
        add_output_option(one)
        return one

    init = subcommand(
        "init",
        "make a CA, certificates of nodes and a client, and the user admin with a password",
        "  ottla security init\n  ottla security init --dir /etc/ottla --name kafka.example.org\n",
    )
    init.add_argument("--nodes", type=int, default=3, metavar="N", help="how many nodes get a certificate (3)")
    node = subcommand(
        "node", "make a certificate for one more node", "  ottla security node node-4 --name kafka4.example.org\n"
    )
    client = subcommand(
        "client", "make a certificate for a client; its principal is User:CN=NAME", "  ottla security client billing\n"
    )
    for one in (node, client):
        one.add_argument("name", metavar="NAME")
    for one in (init, node):
        one.add_argument(
            "--name", dest="names", action="append", default=[], metavar="HOST",
            help="a host name or address that clients use, beside those of this machine; may be repeated",
        )  # fmt: skip
    return made


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments or HELP)
    work = {"init": init, "node": add_node, "client": add_client}[options.command]

    def begin() -> None:
        if not 1 <= options.days <= MAX_DAYS:
            raise CommandError(f"--days {options.days}: from 1 to {MAX_DAYS}", MISUSED)
        work(SecurityFolder(Path(options.dir)), options)

    return guarded(COMMAND, begin)


def init(folder: SecurityFolder, options: argparse.Namespace) -> None:
    if not 1 <= options.nodes <= MAX_NODES:
        raise CommandError(f"--nodes {options.nodes}: from 1 to {MAX_NODES}", MISUSED)
    written = folder.make(options.nodes, options.names, options.days)
    if options.output != TABLE:
        write_document(options.output, {"dir": str(folder.path), "user": ADMIN, "files": [str(one) for one in written]})
        return
    notice(explained(folder, options))


def explained(folder: SecurityFolder, options: argparse.Namespace) -> str:
    where = os.path.relpath(folder.path)
    at = "" if Path(options.dir) == Path(DEFAULT) else f"={options.dir}"
    certificates = "node-1.pem" if options.nodes == 1 else f"node-1.pem to node-{options.nodes}.pem"
    return f"""\
{where}/
  {"ca.pem":<25} the certificate that clients and nodes trust; give it to every client
  {"ca.key":<25} signs further certificates: keep it off machines that do not need it
  {certificates:<25} key and certificate of each node
  {"client-admin.pem":<25} key and certificate of a client (ssl.keystore.location), for listeners with ssl.client.auth
  {"admin.password":<25} the password of the user {ADMIN}, which may do everything
  {"client.properties":<25} how clients log in as {ADMIN}, for Kafka's clients and tools and --command-config

Only you can read them (mode 0600), except ca.pem. Next:
  ottla start --secure{at}                one node with TLS, logins and ACLs
  ottla cluster start --secure{at}        or three
  ottla users add alice --command-config {where}/client.properties
  ottla acls grant alice --producer topic orders --command-config {where}/client.properties"""


def add_node(folder: SecurityFolder, options: argparse.Namespace) -> None:
    done(options, folder.add(options.name, options.names, options.days, is_server=True))
    if options.output == TABLE:
        notice(f"its principal, for super.users of all nodes: User:CN={options.name}")


def add_client(folder: SecurityFolder, options: argparse.Namespace) -> None:
    done(options, folder.add(options.name, [], options.days, is_server=False))
    if options.output == TABLE:
        notice(f"its principal, for ACLs: User:CN={options.name}")


def done(options: argparse.Namespace, path: Path) -> None:
    if options.output != TABLE:
        write_document(options.output, {"file": str(path), "principal": f"User:CN={options.name}"})
    else:
        notice(f"{os.path.relpath(path)}: key and certificate (ssl.keystore.location, ssl.keystore.type=PEM)")
