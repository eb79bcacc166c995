"""Records what real clients and a real Kafka say to each other, as vectors for tests/vectors.

A proxy between the two: start Kafka so that it advertises the proxy's port, run the clients, stop the proxy (SIGINT or
SIGTERM) and the frames seen are written, one file per message, version and sender. Of several frames of one kind the
largest that is not too large is kept, since it tells most.

    python tools/record_vectors.py --listen 19092 --to 29092 --client librdkafka tests/vectors
"""

from __future__ import annotations

import argparse
import asyncio
import signal
from contextlib import suppress
from pathlib import Path

from ottla.wire import decode_from
from ottla.wire.apis import APIS, request_class, response_class
from ottla.wire.frames import RequestHeader, decode_request_header, decode_response_header

Kind = tuple[str, int, str, str]
"""Module, version, request or response, sender."""


class Recorder:
    def __init__(self, client: str, server: str, max_size: int) -> None:
        self.client = client
        self.server = server
        self.max_size = max_size
        self.frames: dict[Kind, bytes] = {}

    def request(self, frame: bytes, pending: dict[int, RequestHeader]) -> None:
        header, _ = decode_request_header(frame)
        pending[header.correlation_id] = header
        self.keep(header, "request", self.client, frame)

    def response(self, frame: bytes, pending: dict[int, RequestHeader]) -> None:
        header = pending.pop(int.from_bytes(frame[:4], "big"))
        self.keep(header, "response", self.server, frame)

    def keep(self, header: RequestHeader, direction: str, sender: str, frame: bytes) -> None:
        api = APIS[header.api_key]
        if not api.is_supported(header.api_version) or len(frame) > self.max_size:
            return
        kind = (api.module, header.api_version, direction, sender)
        if len(frame) > len(self.frames.get(kind, b"")):
            self.frames[kind] = frame

    def write(self, folder: Path) -> None:
        keys = {api.module: key for key, api in APIS.items()}
        for (module, version, direction, sender), frame in sorted(self.frames.items()):
            path = folder / f"{module}_v{version}_{direction}_{sender}.txt"
            if path.exists() and len(parse_vector(path.read_text())[0]) >= len(frame):
                continue
            path.write_text(format_vector(keys[module], version, direction, frame))


def format_vector(api_key: int, version: int, direction: str, frame: bytes) -> str:
    """The frame in hex, a line of dashes, and the message it holds as Python."""
    if direction == "request":
        header, position = decode_request_header(frame)
        cls, head = request_class(api_key), f"{header.correlation_id} {header.client_id!r}"
    else:
        correlation_id, position = decode_response_header(frame, api_key, version)
        cls, head = response_class(api_key), str(correlation_id)
    message, end = decode_from(cls, version, frame, position)
    if end != len(frame):
        raise ValueError(f"{cls.__name__} version {version} leaves {len(frame) - end} bytes")
    lines = [frame[start : start + 48].hex() for start in range(0, len(frame), 48)]
    return "\n".join([*lines, "----", head, repr(message), ""])


def parse_vector(text: str) -> tuple[bytes, str, str]:
    """The frame, what its header says, and the message as Python."""
    code, _, rest = text.partition("----\n")
    head, _, message = rest.partition("\n")
    return bytes.fromhex(code), head, message


async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: int, recorder: Recorder) -> None:
    pending: dict[int, RequestHeader] = {}
    try:
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", target)
    except ConnectionError:
        writer.close()
        return

    async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter, is_request: bool) -> None:
        try:
            while True:
                size = await source.readexactly(4)
                frame = await source.readexactly(int.from_bytes(size, "big"))
                (recorder.request if is_request else recorder.response)(frame, pending)
                sink.write(size + frame)
                await sink.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            sink.close()

    await asyncio.gather(pump(reader, server_writer, True), pump(server_reader, writer, False))


async def record(listen: list[int], to: list[int], recorder: Recorder) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    servers = []
    for port, target in zip(listen, to, strict=True):

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: int = target) -> None:
            with suppress(asyncio.CancelledError):  # connections still open at the end
                await relay(reader, writer, target, recorder)

        servers.append(await asyncio.start_server(accept, "127.0.0.1", port))
    await stopped.wait()
    for server in servers:
        server.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--listen", type=int, nargs="+", required=True, help="ports that clients connect to")
    parser.add_argument("--to", type=int, nargs="+", required=True, help="ports of the broker, one for each")
    parser.add_argument("--client", required=True, help="who sends the requests")
    parser.add_argument("--server", default="kafka", help="who sends the responses")
    parser.add_argument("--max-size", type=int, default=2500, help="larger frames are left out")
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    recorder = Recorder(options.client, options.server, options.max_size)
    asyncio.run(record(options.listen, options.to, recorder))
    recorder.write(options.folder)


if __name__ == "__main__":
    main()
