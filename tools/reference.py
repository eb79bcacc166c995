"""Writes docs/reference: commands, settings, APIs, metrics and the Python client, read from the code itself.

    python tools/reference.py DIR

`make docs` calls it. A page is written only if its text changed, so that a second build has little to do.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import io
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

START_SECONDS = 60
WIDTH = "110"


def main() -> int:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    pages = {
        "commands": commands(),
        "settings": settings(),
        "apis": apis(),
        "metrics": metrics(),
        "client": client(),
    }
    for name, text in pages.items():
        page = folder / f"{name}.md"
        if not page.exists() or page.read_text() != text:
            page.write_text(text)
    return 0


def cell(text: object) -> str:
    return str(text).replace("|", "\\|").replace("\n", " ").replace("*", "\\*").replace("<", "&lt;")


def code(text: object) -> str:
    return f"`{str(text).replace('|', chr(92) + '|')}`" if str(text) else ""


def table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


# --- commands -----------------------------------------------------------------------------------------------------


def commands() -> str:
    """The help of every command and subcommand."""
    from ottla.__main__ import COMMANDS, ELSEWHERE, HELP
    from ottla.cli.parser import Parser

    os.environ["COLUMNS"] = WIDTH
    os.environ["OTTLA_STARTED_AS"] = "ottla"
    shown: list[Any] = []
    parts = ["# Commands\n\nEach page of help, as `--help` prints it.\n\n", f"```text\n{HELP}```\n"]
    print_help = Parser.print_help
    Parser.print_help = lambda parser, file=None: shown.append(parser)  # type: ignore[method-assign,assignment]
    try:
        for name in COMMANDS:
            with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
                import_module(ELSEWHERE.get(name, f"ottla.cli.{name}")).main(["--help"])
            assert shown, f"ottla {name} --help has no parser of its own"
            parts.append(f"\n## ottla {name}\n\n```text\n{shown[-1].format_help()}```\n")
            for sub, parser in shown[-1]._commands().items():
                parts.append(f"\n### ottla {name} {sub}\n\n```text\n{parser.format_help()}```\n")
    finally:
        Parser.print_help = print_help  # type: ignore[method-assign]
    return "".join(parts)


# --- settings -----------------------------------------------------------------------------------------------------

NODE = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@127.0.0.1:9093",
}


def settings() -> str:
    """Every setting with its default, and whether it has an effect."""
    from ottla.config.broker import BrokerConfig
    from ottla.config.describe import describe_broker, describe_group, describe_topic
    from ottla.config.implemented import IMPLEMENTED

    broker = BrokerConfig.parse(NODE)
    parts = [
        "# Settings\n\nNames, types and defaults are Apache Kafka's. A setting that has no effect in Ottla is",
        " accepted, and the node names it once in a warning at its start.\n",
    ]
    for title, intro, entries in (
        (
            "Topics",
            "Set with `ottla configs set topic NAME KEY=VALUE` or `kafka-configs.sh`.",
            describe_topic({}, broker),
        ),
        ("Groups", "Set with `kafka-configs.sh --entity-type groups`.", describe_group({}, broker)),
        ("Nodes", "Set in `server.properties` or with `--override KEY=VALUE`.", describe_broker(broker)),
    ):
        is_node = title == "Nodes"
        heads = ["setting", "default", "meaning"] + (["effect", "change"] if is_node else [])
        rows = []
        for entry in sorted(entries):
            default = "" if entry.name in NODE else entry.value
            row = [code(entry.name), code(default if default is not None else ""), cell(entry.doc)]
            if is_node:
                row.append("yes" if entry.name in IMPLEMENTED else "no")
                row.append("restart" if entry.is_read_only else "at once")
            rows.append(row)
        parts.append(f"\n## {title}\n\n{intro}\n\n{table(heads, rows)}")
    return "".join((*parts, own_settings()))


def own_settings() -> str:
    """The settings that Apache Kafka does not have: Ottla's, and those of Confluent's brokers that Ottla knows."""
    from ottla.config.docs import DOCS
    from ottla.config.groups import GROUP_KEYS
    from ottla.config.keys import format_value
    from ottla.config.own import OWN_KEYS
    from ottla.config.topic import TOPIC_KEYS

    rows = [
        [code(name), "node", code(key.default), cell(DOCS[name]), "restart"] for name, key in sorted(OWN_KEYS.items())
    ]
    for keys, owner in ((TOPIC_KEYS, "topic"), (GROUP_KEYS, "group")):
        for name, key in sorted(keys.items()):
            if name.startswith(("ottla.", "confluent.")):
                default = "" if key.default_value is None else format_value(key.default_value)
                rows.append([code(name), owner, code(default), cell(DOCS[name]), "at once"])
    intro = (
        "Apache Kafka does not have these. They are set like Kafka's. `ottla configs describe` and `kafka-configs.sh`\n"
        "list only those that are set, also with `--all`.\n"
    )
    return f"\n## Ottla's own settings\n\n{intro}\n{table(['setting', 'of a', 'default', 'meaning', 'change'], rows)}"


# --- APIs ---------------------------------------------------------------------------------------------------------


def apis() -> str:
    """Every API of the protocol: versions, permissions, whether it is served."""
    from ottla.broker.serving.api_table import APIS_PACKAGE, ApiTable
    from ottla.wire.apis import APIS

    rows = []
    for key, info in sorted(APIS.items()):
        served = ApiTable.keys.get(key)
        needs, forwarded = "", ""
        if served is not None:
            api = import_module(f"{APIS_PACKAGE}.{served}").api
            needs = ", ".join(f"{need.operation.name} {need.resource.name}" for need in api.needs)
            forwarded = "yes" if api.is_forwarded else ""
        versions = f"{info.min_version} to {info.max_version}"
        rows.append([str(key), info.name, versions, "yes" if served else "no", cell(needs), forwarded])
    heads = ["key", "API", "versions", "served", "permissions that it checks", "answered by the controller"]
    intro = "The APIs of Kafka's protocol. Some are served only at a feature level (`ottla cluster features`)."
    return f"# APIs\n\n{intro}\n\n{table(heads, rows)}"


# --- metrics ------------------------------------------------------------------------------------------------------


def metrics() -> str:
    """The metrics of a node that has just started, by its own words."""
    text = scraped()
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    rows = []
    for name, meaning in re.findall(r"^# HELP (\S+) (.*)$", text, re.MULTILINE):
        labels = sorted(set(re.findall(rf"^{name}(?:_bucket)?\{{(.*)\}} ", text, re.MULTILINE)))
        names = sorted({label for line in labels for label in re.findall(r'(\w+)="', line)} - {"le"})
        rows.append([code(name), kinds[name], ", ".join(map(code, names)), cell(meaning)])
    intro = (
        "`ottla start --metrics-port PORT` serves them at `/metrics` in Prometheus' format. Names are those that\n"
        "dashboards for Kafka's JMX exporter know; `ottla_` marks metrics that Kafka does not have. Labels of a\n"
        "metric without samples on a new node are not listed.\n"
    )
    return f"# Metrics\n\n{intro}\n{table(['metric', 'type', 'labels', 'meaning'], rows)}"


def scraped() -> str:
    ports = []
    for _ in range(2):
        with socket.create_server(("127.0.0.1", 0)) as free:
            ports.append(free.getsockname()[1])
    with tempfile.TemporaryDirectory(prefix="ottla-reference-") as data:
        node = subprocess.Popen(
            [
                *(sys.executable, "-m", "ottla", "start", "--port", str(ports[0]), "--data", f"{data}/node"),
                *("--metrics-port", str(ports[1])),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            deadline = time.monotonic() + START_SECONDS
            while time.monotonic() < deadline:
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{ports[1]}/metrics", timeout=10) as answer:
                        text: str = answer.read().decode()
                        return text
                except OSError:
                    time.sleep(0.1)
            raise SystemExit("the node whose metrics are documented did not start")
        finally:
            node.terminate()
            node.wait(60)


# --- client -------------------------------------------------------------------------------------------------------


def client() -> str:
    """Every public class of `ottla.client` with its public methods."""
    package = import_module("ottla.client")
    parts = [
        "# The Python client\n\nClasses of `ottla.client` (asyncio). `ottla.client.blocking` has the same classes for",
        " threads: methods without `await`. Settings of producers and consumers have Kafka's names, as keywords",
        ' (`linger_ms=5`) or in a dict (`{"linger.ms": 5}`).\n',
    ]
    for name in package.__all__:
        thing = getattr(package, name)
        parts.append(f"\n## {name}\n\n{prose(thing)}")
        if dataclasses.is_dataclass(thing):
            fields = [[code(field.name), code(field.type)] for field in dataclasses.fields(thing)]
            parts.append("\n" + table(["field", "type"], fields))
        for method, function in methods(thing):
            parts.append(f"\n### {name}.{method}\n\n```python\n{signature(method, function)}\n```\n\n{prose(function)}")
    return "".join(parts)


def methods(thing: Any) -> Iterator[tuple[str, Any]]:
    for name, value in vars(thing).items():
        if name.startswith("_") or isinstance(value, property):
            continue
        function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        if inspect.isfunction(function) and function.__doc__:
            yield name, function


def signature(name: str, function: Any) -> str:
    """The signature with at most one parameter per line if it is long."""
    found = inspect.signature(function)
    parameters = [parameter for parameter in found.parameters.values() if parameter.name not in ("self", "cls")]
    text = str(found.replace(parameters=parameters))
    text = re.sub(r"'([^']*)'", r"\1", text)
    prefix = "async def" if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function) else "def"
    return f"{prefix} {name}{text}"


def prose(thing: Any) -> str:
    """A docstring as Markdown: its indented parts are code."""
    text = inspect.getdoc(thing) or ""
    if text.startswith(f"{getattr(thing, '__name__', '')}("):
        return ""  # what dataclasses write by themselves
    return text.replace("<", "&lt;").replace("*", "\\*") + "\n" if text else ""


if __name__ == "__main__":
    sys.exit(main())
