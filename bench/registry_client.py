"""Clients of a schema registry: so many connections that each send one request after the other, as fast as it answers.

Run as a program (`python -m bench.registry_client URL WORK`), so that its CPU time is its own; it prints one JSON
object. HTTP is written and read here, with as little as that takes: what is measured is the server.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Iterator
from itertools import cycle
from urllib.parse import urlsplit

from ottla.net import new_event_loop

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"


class Connection:
    """One connection that stays open."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port, self._path = parts.hostname or "", parts.port or 80, parts.path.rstrip("/")
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port)

    async def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        head = f"{method} {self._path}{path} HTTP/1.1\r\nHost: {self._host}\r\nAccept: {MEDIA_TYPE}\r\n"
        if body:
            head += f"Content-Type: {MEDIA_TYPE}\r\nContent-Length: {len(body)}\r\n"
        self._writer.write(head.encode() + b"\r\n" + body)
        answer = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        status = int(answer[9:12])
        place = answer.find(b"content-length:")
        if place >= 0:
            size = int(answer[place + 15 : answer.index(b"\r\n", place)])
            return status, await self._reader.readexactly(size)
        content = bytearray()
        while True:  # chunked
            size = int(await self._reader.readline(), 16)
            content += (await self._reader.readexactly(size + 2))[:-2]
            if not size:
                return status, bytes(content)

    def close(self) -> None:
        self._writer.close()


def schema(index: int) -> bytes:
    """A record of ten fields whose name is its number."""
    fields = [{"name": f"field_{number}", "type": ["null", "string"], "default": None} for number in range(10)]
    text = json.dumps({"type": "record", "name": f"Order{index}", "namespace": "shop", "fields": fields})
    return json.dumps({"schema": text}).encode()


def requests(work: str, first: int, count: int) -> Iterator[tuple[str, str, bytes]]:
    numbers = range(first, first + count)
    if work == "register":
        return (("POST", f"/subjects/subject-{index}-value/versions", schema(index)) for index in numbers)
    if work == "again":
        return (
            ("POST", f"/subjects/subject-{index}-value/versions", schema(index)) for index in cycle(range(1, 1 + count))
        )
    if work == "lookup":
        return (("POST", f"/subjects/subject-{index}-value", schema(index)) for index in cycle(range(1, 1 + count)))
    if work == "ids":
        return (("GET", f"/schemas/ids/{index}", b"") for index in cycle(numbers))
    return (("GET", "/subjects", b"") for _ in cycle(numbers))


async def run(options: argparse.Namespace) -> dict[str, object]:
    left = requests(options.work, options.first, options.count)
    latencies: list[float] = []
    failed: list[str] = []
    connections = [Connection(options.url) for _ in range(options.clients)]
    for connection in connections:
        await connection.open()
    started, used = time.perf_counter(), time.process_time()
    end = started + options.seconds if options.seconds else float("inf")

    async def client(connection: Connection) -> None:
        for method, path, body in left:
            sent = time.perf_counter()
            status, content = await connection.ask(method, path, body)
            now = time.perf_counter()
            latencies.append(now - sent)
            if status != 200:
                failed.append(f"{status} {content[:200]!r}")
            if now > end:
                return

    await asyncio.gather(*map(client, connections))
    seconds = time.perf_counter() - started
    for connection in connections:
        connection.close()
    latencies.sort()
    return {
        "requests": len(latencies),
        "seconds": seconds,
        "rate": len(latencies) / seconds,
        "p50_ms": 1000 * latencies[len(latencies) // 2],
        "p99_ms": 1000 * latencies[int(len(latencies) * 0.99)],
        "failed": len(failed),
        "first_failure": failed[0] if failed else None,
        "client_cpu_seconds": time.process_time() - used,
    }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench.registry_client")
    parser.add_argument("url")
    parser.add_argument("work", choices=["register", "again", "lookup", "ids", "subjects"])
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--first", type=int, default=1, help="number of the first schema")
    parser.add_argument("--count", type=int, default=1_000, help="schemas")
    parser.add_argument("--seconds", type=float, default=0, help="end after so long (without: after the schemas)")
    options = parser.parse_args(arguments)
    loop = new_event_loop()
    print(json.dumps(loop.run_until_complete(run(options))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
