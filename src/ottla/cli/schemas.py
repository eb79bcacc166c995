"""`ottla schemas`: what a schema registry has, and whether a schema may follow it."""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ottla.cli.output import Column, emit, emit_done
from ottla.cli.registered import registry_settings
from ottla.cli.session import (
    HELP,
    MISUSED,
    REGISTRY_URL,
    REGISTRY_VARIABLE,
    CommandError,
    add_subcommand,
    add_yes_option,
    choose_cluster,
    confirm,
    group_parser,
    guarded,
    with_registry,
)
from ottla.converters.errors import RegistryError, SchemaNotFound
from ottla.converters.registry import AVRO, JSON, PROTOBUF, Registry

COMMAND = "ottla schemas"
DEFAULT_URL = "http://127.0.0.1:8081"
EXAMPLES = """\
  ottla schemas list
  ottla schemas show orders-value                      the latest version; --version 2 for another
  ottla schemas register orders-value order.avsc       the suffix says the language: .avsc, .json, .proto
  ottla schemas register orders-value order.avsc --reference shop.Item=item-value
                                                       a type of another subject that the schema names
  ottla schemas check orders-value order.avsc          may it follow what is registered? exit code 1: no, and why
  ottla schemas diff orders-value 1 2
  ottla schemas delete orders-value --version 1
"""
COLUMNS = [Column("subject", "SUBJECT"), Column("version", "VERSION"), Column("id", "ID"), Column("type", "TYPE")]
KINDS = {".avsc": AVRO, ".json": JSON, ".proto": PROTOBUF}


def parser() -> argparse.ArgumentParser:
    made, commands = group_parser(
        COMMAND, "Schemas of a registry: Ottla's ('ottla registry'), Confluent's, Karapace or Apicurio.", EXAMPLES
    )
    _add(commands, "list", "subjects and their latest versions", "  ottla schemas list\n")
    show = _add(commands, "show", "print a version of a subject", "  ottla schemas show orders-value --version 2\n")
    show.add_argument("subject", metavar="SUBJECT")
    show.add_argument("--version", default="latest", metavar="N", help="a version (latest)")
    for name, summary in (
        ("register", "add a schema to a subject; the same schema again changes nothing"),
        ("check", "whether a schema may follow the versions of a subject, and why not"),
    ):
        one = _add(commands, name, summary, f"  ottla schemas {name} orders-value order.avsc\n")
        one.add_argument("subject", metavar="SUBJECT")
        one.add_argument("file", metavar="FILE", help="'-' is stdin")
        one.add_argument("--type", choices=sorted(KINDS.values()), help="the language (by the suffix of FILE, or AVRO)")
        one.add_argument("--normalize", action="store_true", help="write it in normal form first")
        one.add_argument(
            "--reference", metavar="NAME=SUBJECT[:VERSION]", action="append", default=[], help="a schema that this one "
            "refers to as NAME (Avro: its full name, Protobuf: the import), its latest version if none is given; "
            "may be repeated",
        )  # fmt: skip
    diff = _add(commands, "diff", "how two versions of a subject differ", "  ottla schemas diff orders-value 1 2\n")
    diff.add_argument("subject", metavar="SUBJECT")
    diff.add_argument("old", metavar="VERSION")
    diff.add_argument("new", metavar="VERSION", nargs="?", default="latest")
    delete = _add(
        commands,
        "delete",
        "delete a subject, or one version",
        "  ottla schemas delete orders-value --version 1 --yes\n",
    )
    delete.add_argument("subject", metavar="SUBJECT")
    delete.add_argument("--version", metavar="N", help="only this version")
    delete.add_argument(
        "--permanent", action="store_true", help="for good: what is deleted already leaves the registry"
    )
    add_yes_option(delete)
    return made


def _add(commands: Any, name: str, summary: str, examples: str) -> argparse.ArgumentParser:
    made = add_subcommand(commands, name, summary, examples)
    made.add_argument(
        "--registry", metavar="URL", help=f"the registry ({REGISTRY_VARIABLE}, the cluster's, or {DEFAULT_URL})"
    )
    return made


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments or HELP)
    work = {
        "list": list_subjects, "show": show, "register": register, "check": check, "diff": diff, "delete": delete,
    }[options.command]  # fmt: skip

    def begin() -> int:
        try:
            return work(_registry(options), options)
        except (RegistryError, SchemaNotFound) as error:
            raise CommandError(str(error)) from None

    return guarded(COMMAND, begin, options)


def _registry(options: argparse.Namespace) -> Registry:
    given = choose_cluster(options).settings
    if REGISTRY_URL not in given and not options.registry:
        given = with_registry(given, DEFAULT_URL)
    return Registry(registry_settings(options.registry, given))


def _path(subject: str, *more: str) -> str:
    return "/".join(("/subjects", quote(subject, safe=""), *(quote(one, safe="") for one in more)))


def list_subjects(registry: Registry, options: argparse.Namespace) -> int:
    found = [registry.ask("GET", _path(one, "versions", "latest")) for one in registry.subjects()]
    rows = [
        {"subject": one["subject"], "version": one["version"], "id": one["id"], "type": one.get("schemaType") or AVRO}
        for one in found
    ]
    emit(options.output, rows, COLUMNS)
    return 0


def show(registry: Registry, options: argparse.Namespace) -> int:
    found = registry.ask("GET", _path(options.subject, "versions", options.version))
    if options.output == "table":
        print(_pretty(found["schema"]))
    else:
        emit(options.output, [found], [])
    return 0


def _pretty(text: str) -> str:
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        return text


def _body(registry: Registry, options: argparse.Namespace) -> dict[str, Any]:
    try:
        text = sys.stdin.read() if options.file == "-" else Path(options.file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{options.file} cannot be read: {error}", MISUSED) from None
    body: dict[str, Any] = {"schema": text, "schemaType": options.type or KINDS.get(Path(options.file).suffix, AVRO)}
    if options.reference:
        body["references"] = [_reference(registry, one) for one in options.reference]
    return body


def _reference(registry: Registry, given: str) -> dict[str, Any]:
    name, equals, place = given.partition("=")
    subject, _, version = place.rpartition(":")
    if not subject or not version.isdecimal():
        subject, version = place, "latest"
    if not name or not equals or not subject:
        raise CommandError(f"--reference {given}: it is NAME=SUBJECT or NAME=SUBJECT:VERSION", MISUSED)
    found = registry.ask("GET", _path(subject, "versions", version))
    return {"name": name, "subject": subject, "version": found["version"]}


def register(registry: Registry, options: argparse.Namespace) -> int:
    query = "?normalize=true" if options.normalize else ""
    found = registry.ask("POST", _path(options.subject, "versions") + query, _body(registry, options), options.subject)
    emit_done(options.output, [{"subject": options.subject, **found}], [f"{options.subject} has the id {found['id']}"])
    return 0


def check(registry: Registry, options: argparse.Namespace) -> int:
    query = "?verbose=true" + ("&normalize=true" if options.normalize else "")
    path = f"/compatibility{_path(options.subject, 'versions')}{query}"
    found = registry.ask("POST", path, _body(registry, options), options.subject)
    is_compatible = bool(found["is_compatible"])
    lines = [str(one) for one in found.get("messages") or ()]
    said = (
        f"{options.subject}: the schema may follow"
        if is_compatible
        else f"{options.subject}: the schema may not follow"
    )
    emit_done(options.output, [{"subject": options.subject, **found}], [said, *lines])
    return 0 if is_compatible else 1


def diff(registry: Registry, options: argparse.Namespace) -> int:
    old, new = (registry.ask("GET", _path(options.subject, "versions", one)) for one in (options.old, options.new))
    before, after = (_pretty(one["schema"]).splitlines() for one in (old, new))
    names = [f"{options.subject} version {one['version']}" for one in (old, new)]
    for line in difflib.unified_diff(before, after, names[0], names[1], lineterm=""):
        print(line)
    return 0


def delete(registry: Registry, options: argparse.Namespace) -> int:
    what = options.subject if options.version is None else f"version {options.version} of {options.subject}"
    confirm(f"delete {what}{' for good' if options.permanent else ''}", options)
    more = () if options.version is None else ("versions", options.version)
    query = "?permanent=true" if options.permanent else ""
    found = registry.ask("DELETE", _path(options.subject, *more) + query)
    emit_done(options.output, [{"subject": options.subject, "deleted": found}], [f"{what}: deleted"])
    return 0
