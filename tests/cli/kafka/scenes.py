"""Scenes: commands of Kafka's console tools one after the other, with what the originals printed.

A file in `recorded` is a scene. Its commands are the lines that begin with `$`; below each stands what Apache Kafka's
own tool printed when it ran on Apache Kafka 4.3.1, with placeholders for what differs from run to run:

    file moves.json {"partitions": []}          an input file, {folder}/moves.json
    hide HighWatermark: +\\d+                    a pattern whose match differs from run to run
    $ kafka-topics --bootstrap-server {server} --list
    $ kafka-console-producer --bootstrap-server {server} --topic t <<< lines of stdin\\nin one
    $ member GROUP TOPIC name=value ...         a consumer that stays in a group until the scene ends
    $ fill TOPIC COUNT                          records of 1,000 bytes in the topic's first partition
    $ kill ID                                   end a node of a cluster, as kill -9 does
    $ segments                                  files of partitions in {folder}, see segments.py
    exit 0
    out one line of stdout
    err one line of stderr

`python -m tests.cli.kafka.record` runs the originals and writes the files anew; the commands stay.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ottla.__main__ import kafka_tool
from ottla.client.admin import Admin
from ottla.client.blocking import Producer
from ottla.client.errors import KafkaError
from tests.cli.kafka.segments import write_segments
from tests.interop.toolbox import Toolbox

RECORDED = Path(__file__).with_name("recorded")
ID = re.compile(r"(?<=TopicId: )[\w-]{22}|(?<=directory\.id=)[\w-]{22}|(?<=directoryId\": \")[\w-]{22}")
NOISE = re.compile(
    r"\tat | at \[Source|com\.fasterxml\.|\t\.\.\. \d+ more|exit \d+$|Toolbox\$Exited|Error occurred: exit \d|"
    r"\[20\d\d-| \(org\.apache\."
)
LOGGED = re.compile(r"^\[20\d\d-[^\n]*\n(?:(?:Caused by: )?[a-z]+(?:\.[a-z]+)+\.[^\n]*\n)*", re.MULTILINE)
"""A line of the log and the exceptions in it: the originals' log goes elsewhere."""
READING = re.compile(
    r"--describe|list-endpoints|--preserve|--generate|--list|--status|--verify|get-offsets| list| describe|info "
)


class Printed(NamedTuple):
    """What a command left behind, made comparable."""

    code: int
    out: tuple[str, ...]
    err: tuple[str, ...]

    def text(self) -> str:
        lines = [f"exit {self.code}", *(f"out {one}".rstrip() for one in self.out)]
        return "\n".join([*lines, *(f"err {one}".rstrip() for one in self.err)])


@dataclass
class Scene:
    name: str
    files: dict[str, str] = field(default_factory=dict)
    hidden: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    printed: list[str] = field(default_factory=list)
    """As the originals printed it, one text for each command."""

    @property
    def needs_cluster(self) -> bool:
        return self.name.startswith("cluster_")

    @property
    def needs_authorizer(self) -> bool:
        return self.name.startswith("acls")


def scene_names() -> list[str]:
    return sorted(path.stem for path in RECORDED.glob("*.txt"))


def read_scene(name: str) -> Scene:
    scene = Scene(name)
    lines: list[str] = []
    for line in (RECORDED / f"{name}.txt").read_text().splitlines():
        word, _, rest = line.partition(" ")
        if word == "file":
            file, _, content = rest.partition(" ")
            scene.files[file] = content.replace("\\n", "\n")
        elif word == "hide":
            scene.hidden.append(rest)
        elif word == "$":
            scene.commands.append(rest)
            lines = []
            scene.printed.append("")
        elif line:
            lines.append(line)
            scene.printed[-1] = "\n".join(lines)
    return scene


def write_scene(scene: Scene) -> None:
    head = [f"file {name} {text}".replace("\n", "\\n") for name, text in scene.files.items()]
    head += [f"hide {pattern}" for pattern in scene.hidden]
    parts = ["\n".join(head)] if head else []
    parts += [f"$ {command}\n{printed}" for command, printed in zip(scene.commands, scene.printed, strict=True)]
    (RECORDED / f"{scene.name}.txt").write_text("\n\n".join(parts) + "\n")


Tools = Callable[[str, list[str], str], tuple[int, str, str]]
"""Runs a tool with its arguments and its stdin: exit code, stdout, stderr."""


class Stage:
    """Where a scene is played: a server, a folder for its files, and the tools of Kafka or of Ottla."""

    def __init__(self, run: Tools, places: dict[str, str], kill_node: Callable[[int], None] | None = None) -> None:
        self._run = run
        self._places = places
        self._kill_node = kill_node
        self._members: list[subprocess.Popen[bytes]] = []

    def play(self, scene: Scene) -> Iterator[tuple[str, Callable[[], Printed]]]:
        """The commands one after the other, each with what runs it (again)."""
        for name, text in scene.files.items():
            Path(self._places["folder"], name).write_text(self._filled(text))
        try:
            for command in scene.commands:
                yield command, lambda command=command: self._played(command, scene)  # type: ignore[misc]
        finally:
            for member in self._members:
                member.kill()
                member.wait()

    def _played(self, command: str, scene: Scene) -> Printed:
        command, _, stdin = command.partition(" <<< ")
        tool, *arguments = (self._filled(word) for word in shlex.split(command))
        if tool == "segments":
            write_segments(Path(self._places["folder"]))
            return Printed(0, (), ())
        if tool == "fill":
            fill(self._places["server"], arguments[0], int(arguments[1]))
            return Printed(0, (), ())
        if tool == "kill":
            assert self._kill_node is not None
            self._kill_node(int(arguments[0]))
            return Printed(0, (), ())
        if tool == "member":
            self._members.append(join(self._places["server"], *arguments))
            return Printed(0, (), ())
        stdin = stdin.replace("\\n", "\n").replace("\\t", "\t")
        code, out, err = self._run(tool.removeprefix("kafka-"), arguments, stdin)
        return Printed(1 if code == 99 else code, self._lines(out, scene), self._lines(err, scene))

    def _filled(self, text: str) -> str:
        for name, value in self._places.items():
            text = text.replace(f"{{{name}}}", value)
        return text

    def _lines(self, text: str, scene: Scene) -> tuple[str, ...]:
        for name, value in sorted(self._places.items(), key=lambda place: -len(place[1])):
            text = text.replace(value, f"{{{name}}}")
        if "Toolbox$Exited" in text:
            # kafka-configs and kafka-acls catch what stands for the end of their process, and tell of it.
            text = re.sub(r"Error while executing (config command with args .*|ACL command: exit \d+)\n", "", text)
        for pattern in scene.hidden:
            text = re.sub(pattern, "{hidden}", text)
        text = ID.sub("{id}", LOGGED.sub("", text)).replace('Exception in thread "main" ', "")
        text = LOGGED.sub("", text)
        lines = [line.rstrip() for line in text.splitlines() if not NOISE.match(line)]
        while lines and not lines[-1]:
            lines.pop()
        return tuple(_without_words(lines))


def _without_words(lines: list[str]) -> list[str]:
    """The help of a tool without its sentences: which options there are, and what they take."""
    for index, line in enumerate(lines):
        if line.startswith("Option ") and line.rstrip().endswith("Description"):
            width = line.index("Description")
            cells = [row[:width].rstrip() for row in lines[index + 2 :]]
            joined = re.sub(r"(?<=[-,.:/]) (?=\S)|(?<=\d) (?=>)", "", " ".join(cell.strip() for cell in cells if cell))
            return [*lines[:index], *joined.replace(" --", "\n--").replace(" * --", "\n* --").split("\n")]
    if lines and lines[0].startswith("usage: ") and not any("error:" in line for line in lines):
        end = lines.index("") if "" in lines else len(lines)
        named = [line[:25].rstrip() if line[23:25].strip() == "" else line for line in lines[end:]]
        return [*lines[:end], *(line for line in named if re.match(r" {2,4}(-|\{|[A-Za-z])", line) and _is_name(line))]
    return lines


def _is_name(line: str) -> bool:
    return line.startswith("  -") or " " not in line.strip()


def join(server: str, group: str, topic: str, *properties: str) -> subprocess.Popen[bytes]:
    """A consumer in a process of its own, when it has partitions of the topic."""
    command = [sys.executable, "-m", "ottla", "kafka-console-consumer", "--bootstrap-server", server]
    command += ["--group", group, "--topic", topic, *(f"--command-property={one}" for one in properties)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    async def wait() -> None:
        async with Admin(bootstrap_servers=server) as admin, asyncio.timeout(120):
            while True:
                with contextlib.suppress(KafkaError):
                    described = (await admin.describe_groups([group]))[group]
                    if described.state == "Stable" and all(member.assignment for member in described.members):
                        return
                await asyncio.sleep(0.05)

    asyncio.run(wait())
    return process


def fill(server: str, topic: str, count: int) -> None:
    with Producer(bootstrap_servers=server, acks="all") as producer:
        for number in range(count):
            producer.send(topic, b"%01000d" % number, partition=0)
        producer.flush()


def our_tools(tool: str, arguments: list[str], stdin: str = "") -> tuple[int, str, str]:
    """Ours, in this process."""
    out, err = _text_stream(""), _text_stream("")
    was, sys.stdin = sys.stdin, _text_stream(stdin)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = kafka_tool(tool, arguments)
    finally:
        sys.stdin = was
    return code, _written(out), _written(err)


def _text_stream(text: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8", newline="", write_through=True)


def _written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode()


def original_tools(toolbox: Toolbox) -> Tools:
    """Kafka's own, in their JVM."""

    def run(tool: str, arguments: list[str], stdin: str) -> tuple[int, str, str]:
        printed = toolbox.run(tool, *arguments, stdin=stdin)
        return printed.code, printed.out, printed.err

    return run
