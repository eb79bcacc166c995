"""Writes the message declarations of src/ottla/wire/messages from Kafka's own definitions.

Kafka's jars carry a JSON file (with comments) for every request, response and internal record. This reads them and
writes Python declarations: names, types, versions, defaults. None of the definitions' prose is carried over.

    python tools/messages.py <folder of jars>/kafka-*.jar

Run it again for a new Kafka release and read the diff. Requests and responses are Kafka 4.4.0's (kafka-clients). The
records are 4.3.1's (kafka-metadata, kafka-raft, kafka-storage and the three coordinators), with those that 4.4 added in
`tools/definitions/<jar>/`: those jars of 4.4 are not available yet.
"""

from __future__ import annotations

import argparse
import json
import keyword
import re
import subprocess
import sys
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parent.parent / "src" / "ottla" / "wire" / "messages"
MORE_DEFINITIONS = Path(__file__).resolve().parent / "definitions"
FOREVER = 32767
NUMBERS = ("int8", "int16", "int32", "int64", "uint16", "uint32")

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING_COMMA = re.compile(r'("(?:[^"\\]|\\.)*")|,(\s*[\]}])', re.DOTALL)

Versions = tuple[int, int]


def parse_definition(text: str) -> dict[str, Any]:
    """JSON with comments and trailing commas."""
    text = _TOKEN.sub(lambda match: match.group() if match.group()[0] == '"' else " ", text)
    text = _TRAILING_COMMA.sub(lambda match: match.group(1) or match.group(2), text)
    definition: dict[str, Any] = json.loads(text)
    return definition


def parse_versions(text: str | None) -> Versions | None:
    """`none`, `3`, `3+` or `3-5`."""
    if text is None or text == "none":
        return None
    if text.endswith("+"):
        return int(text[:-1]), FOREVER
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def snake(name: str) -> str:
    name = name.replace("KRaft", "Kraft")
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    return name + "_" if keyword.iskeyword(name) else name


def pascal(name: str) -> str:
    return name.replace("KRaft", "Kraft")


@dataclass
class Definition:
    """One message of the definitions, with the class names of its structs."""

    json: dict[str, Any]
    jar: str
    versions: Versions
    flexible: int | None
    structs: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # leaves first
    names: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return pascal(self.json["name"])

    @property
    def type(self) -> str:
        return str(self.json["type"])

    @property
    def api_key(self) -> int | None:
        key: int | None = self.json.get("apiKey")
        return key


def read_definition(text: str, jar: str) -> Definition | None:
    definition = parse_definition(text)
    versions = parse_versions(definition["validVersions"])
    if versions is None or definition["type"] == "header":
        return None  # gone from Kafka, or written by hand in frames.py
    flexible = parse_versions(definition.get("flexibleVersions"))
    message = Definition(definition, jar, versions, flexible[0] if flexible else None)
    declared: dict[str, list[dict[str, Any]]] = {}

    def declare(fields: list[dict[str, Any]]) -> None:
        for entry in fields:
            if "fields" in entry:
                declared[entry["type"].removeprefix("[]")] = entry["fields"]
                declare(entry["fields"])

    for common in definition.get("commonStructs", []):
        declared[common["name"]] = common["fields"]
        declare(common["fields"])
    declare(definition.get("fields", []))

    def visit(fields: list[dict[str, Any]]) -> None:
        for entry in fields:
            name = entry["type"].removeprefix("[]")
            if name in declared and name not in message.structs:
                visit(declared[name])
                message.structs[name] = declared[name]

    visit(definition.get("fields", []))
    message.names = {name: pascal(name) for name in message.structs}
    return message


def annotation(message: Definition, entry: dict[str, Any]) -> str:
    type_ = entry["type"]
    element = type_.removeprefix("[]")
    element = message.names.get(element, {"records": "Records"}.get(element, element))
    return f"array[{element}]" if type_.startswith("[]") else str(element)


def default_of(message: Definition, entry: dict[str, Any]) -> str:
    """The default as Python source."""
    default = entry.get("default")
    type_ = entry["type"]
    if default == "null":
        return "None"
    if type_.startswith("[]"):
        return "[]"
    if type_ in message.names:
        # A tagged struct that has no null on the wire is None while it is absent.
        return "None" if is_absent_struct(message, entry) else f"{message.names[type_]}()"
    if type_ == "records":
        return "None" if "nullableVersions" in entry else 'b""'
    if type_ == "bytes":
        return 'b""'
    if type_ == "string":
        return json.dumps(default or "")
    if type_ == "bool":
        return str(str(default).lower() == "true")
    if type_ == "uuid":
        return "ZERO_UUID"
    if type_ == "float64":
        return repr(float(default or 0))
    number = int(str(default or 0), 0)
    return hex(number).upper().replace("X", "x") if number > 0xFFFF and number & (number + 1) == 0 else str(number)


def is_absent_struct(message: Definition, entry: dict[str, Any]) -> bool:
    return entry["type"] in message.names and "tag" in entry and "nullableVersions" not in entry


def declare_field(message: Definition, entry: dict[str, Any], used: set[str]) -> str:
    type_ = annotation(message, entry)
    default = default_of(message, entry)
    tagged = parse_versions(entry.get("taggedVersions"))
    versions = parse_versions(entry.get("versions")) or tagged
    assert versions is not None, f"{message.name}.{entry['name']} is in no version"
    nullable = parse_versions(entry.get("nullableVersions"))
    if entry.get("flexibleVersions"):
        raise ValueError(f"{message.name}.{entry['name']} has flexible versions of its own")
    used.update(re.findall(r"\w+", type_ + " " + default))
    extra = []
    if nullable is not None:
        covered = nullable[0] <= max(versions[0], message.versions[0])
        covered = covered and nullable[1] >= min(versions[1], message.versions[1])
        # A tagged struct that has a null says so: without, None means that it is absent.
        if not covered or ("tag" in entry and entry["type"] in message.names):
            extra.append(f"nullable={nullable[0]}" if nullable[1] == FOREVER else f"nullable={nullable}")
    if "tag" in entry:
        assert tagged is not None
        extra.append(f"tag={entry['tag']}")
        if tagged[0] > versions[0]:
            extra.append(f"tagged={tagged[0]}")
    if entry.get("ignorable"):
        extra.append("ignorable=True")
    is_in_all = versions[0] <= message.versions[0] and versions[1] >= message.versions[1]
    if nullable is not None or default == "None":
        type_ += " | None"
    name = snake(entry["name"])
    if is_in_all and not [option for option in extra if option != "ignorable=True"]:
        return f"    {name}: {type_} = {default}"
    used.add("since")
    last = f", {versions[1]}" if versions[1] != FOREVER else ""
    options = "".join(f", {option}" for option in extra)
    return f"    {name}: {type_} = since({versions[0]}{last}, default={default}{options})"


def declare_message(message: Definition, used: set[str]) -> str:
    blocks = []
    for name, fields in message.structs.items():
        used.add("Struct")
        body = [declare_field(message, entry, used) for entry in fields]
        blocks.append("\n".join([f"class {message.names[name]}(Struct):", *(body or ["    pass"])]))
    options = [f"api_key={message.api_key}"] if message.api_key is not None else []
    options.append(f"versions=({message.versions[0]}, {message.versions[1]})")
    if message.flexible is not None:
        options.append(f"flexible={message.flexible}")
    used.add("Message")
    body = [declare_field(message, entry, used) for entry in message.json.get("fields", [])]
    head = f"class {message.name}(Message, {', '.join(options)}):"
    blocks.append("\n".join([head, *(body or ["    pass"])]))
    return "\n\n\n".join(blocks)


def write_module(path: Path, title: str, messages: list[Definition]) -> None:
    used: set[str] = set()
    text = "\n\n\n".join(declare_message(message, used) for message in messages)
    vocabulary = {*NUMBERS, "float64", "string", "uuid", "Records", "array", "since", "Struct", "Message"}
    imports = [f"from ottla.wire.message import {', '.join(sorted(used & vocabulary))}"]
    if "ZERO_UUID" in used:
        imports.append("from ottla.wire.primitives import ZERO_UUID")
    head = (
        f'"""{title} Written by tools/messages.py."""\n\n# ruff: noqa: RUF012\n\nfrom __future__ import annotations\n\n'
    )
    path.write_text(head + "\n".join(imports) + "\n\n\n" + text + "\n")


def write_apis(pairs: dict[int, list[Definition]]) -> None:
    rows = []
    for key, pair in sorted(pairs.items()):
        request = next(message for message in pair if message.type == "request")
        name = request.name.removesuffix("Request")
        unstable = bool(request.json.get("latestVersionUnstable"))
        listeners = tuple(sorted(request.json["listeners"]))
        rows.append(f"    {(key, name, snake(name), *request.versions, request.flexible, listeners, unstable)!r},\n")
        for message in pair:
            if (message.versions, message.flexible) != (request.versions, request.flexible):
                raise ValueError(f"request and response of {name} have different versions")
        shared = set(pair[0].structs) & set(pair[1].structs)
        for message in pair:  # the two are in one module: a name in both is distinguished by its message
            message.names.update({struct: message.name + pascal(struct) for struct in shared})
        module = TARGET / f"{snake(name)}.py"
        write_module(module, f"{name} (api key {key}): request and response.", sorted(pair, key=lambda m: m.type))
    head = '"""Kafka\'s messages: a module per API, and the table of APIs. Written by tools/messages.py."""\n\n'
    comment = (
        "# key, name, module, first version, last version, first flexible version, listeners, newest is unstable\n"
    )
    type_ = "tuple[tuple[int, str, str, int, int, int | None, tuple[str, ...], bool], ...]"
    (TARGET / "__init__.py").write_text(f"{head}{comment}APIS: {type_} = (\n{''.join(rows)})\n")


FAMILIES = {
    ("kafka-metadata", "metadata"): ("METADATA", "of the cluster metadata log"),
    ("kafka-group-coordinator", "coordinator-key"): ("GROUP_KEYS", "keys of __consumer_offsets"),
    ("kafka-group-coordinator", "coordinator-value"): ("GROUP_VALUES", "values of __consumer_offsets"),
    ("kafka-transaction-coordinator", "coordinator-key"): ("TRANSACTION_KEYS", "keys of __transaction_state"),
    ("kafka-transaction-coordinator", "coordinator-value"): ("TRANSACTION_VALUES", "values of __transaction_state"),
    ("kafka-share-coordinator", "coordinator-key"): ("SHARE_KEYS", "keys of __share_group_state"),
    ("kafka-share-coordinator", "coordinator-value"): ("SHARE_VALUES", "values of __share_group_state"),
    ("kafka-storage", "metadata"): ("REMOTE_LOG", "of __remote_log_metadata"),
}


def write_records(messages: list[Definition]) -> None:
    tables: dict[str, dict[int, tuple[str, str]]] = {}
    for message in messages:
        module = snake(message.name)
        what = "schema that is no request" if message.api_key is None else "record"
        write_module(TARGET / "records" / f"{module}.py", f"{message.name}: a {what}.", [message])
        family = FAMILIES.get((message.jar, message.type))
        if family and message.api_key is not None:
            table = tables.setdefault(family[0], {})
            assert message.api_key not in table, f"{message.name} shares its key"
            table[message.api_key] = (module, message.name)
    text = '"""Records that Kafka writes to its own logs and files: a module each. Written by tools/messages.py.\n\n'
    text += "The tables give (module, class) by the record's type.\n"
    text += '"""\n\nfrom importlib import import_module\n\nfrom ottla.wire.message import Message\n\n'
    for name, what in FAMILIES.values():
        rows = "".join(f'    {key}: ("{module}", "{cls}"),\n' for key, (module, cls) in sorted(tables[name].items()))
        text += f"# {what}\n{name}: dict[int, tuple[str, str]] = {{\n{rows}}}\n\n"
    text += "\ndef record_class(table: dict[int, tuple[str, str]], key: int) -> type[Message]:\n"
    text += '    """The class of a record type; KeyError for a type that Kafka 4.4.0 does not know."""\n'
    text += "    module, name = table[key]\n"
    text += '    cls: type[Message] = getattr(import_module(f"{__name__}.{module}"), name)\n    return cls\n'
    (TARGET / "records" / "__init__.py").write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jars", nargs="+", type=Path, help="jars that hold message definitions; others are passed over")
    messages: list[Definition] = []
    for jar in sorted(parser.parse_args().jars):
        short = re.sub(r"-\d.*", "", jar.stem)
        if short == "kafka-streams":
            continue  # what a client writes to itself
        with zipfile.ZipFile(jar) as archive:
            for name in sorted(archive.namelist()):
                if re.fullmatch(r"(common/)?(message|metadata)/\w+\.json", name):
                    message = read_definition(archive.read(name).decode(), short)
                    if message is not None:
                        messages.append(message)
    names = {message.name for message in messages}
    for path in sorted(MORE_DEFINITIONS.glob("*/*.json")):
        message = read_definition(path.read_text(), path.parent.name)
        if message is not None and message.name not in names:
            messages.append(message)
    for stale in TARGET.rglob("*.py"):
        stale.unlink()
    (TARGET / "records").mkdir(parents=True, exist_ok=True)
    pairs: dict[int, list[Definition]] = {}
    for message in messages:
        if message.type in ("request", "response"):
            assert message.api_key is not None
            pairs.setdefault(message.api_key, []).append(message)
    write_apis(pairs)
    write_records([message for message in messages if message.type not in ("request", "response")])
    for command in (["format"], ["check", "--fix"], ["format"]):
        subprocess.run([sys.executable, "-m", "ruff", *command, "-q", TARGET], check=True)


if __name__ == "__main__":
    main()
