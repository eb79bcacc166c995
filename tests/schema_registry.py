"""A schema registry for tests: Confluent's REST paths over a dict, in a thread of the test.

Schemas are compared as they are; only a version whose text has `"incompatible"` is refused as such. `requests` tells
what was asked, `broken` makes the next answers fail.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from ottla.converters.registry import RegistrySettings


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    """When it is closed, every answer has been given."""


class SchemaRegistry:
    """The subjects, and the users that may read them."""

    def __init__(self, *, user: str | None = None, password: str = "", knows_serialized: bool = True) -> None:
        self.requests: list[str] = []
        self.broken: list[bytes | int] = []
        self._ids: dict[str, int] = {}
        self._schemas: dict[int, dict[str, Any]] = {}
        self._subjects: dict[str, list[int]] = {}
        self._knows_serialized = knows_serialized
        pair = f"{user}:{password}".encode()
        self._authorization = None if user is None else f"Basic {base64.b64encode(pair).decode()}"
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.answer(self, None)

            def do_POST(self) -> None:
                registry.answer(self, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def log_message(self, format: str, *arguments: Any) -> None:
                pass

        self._server = _Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.settings = RegistrySettings((self.url,), user, password or None)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def add(self, subject: str, schema: str, kind: str = "AVRO", references: list[dict[str, Any]] | None = None) -> int:
        """Register a schema; its id."""
        document = {"schema": schema, "schemaType": kind, "references": references or []}
        key = json.dumps(document, sort_keys=True)
        number = self._ids.setdefault(key, len(self._ids) + 1)
        self._schemas[number] = document
        versions = self._subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def latest(self, subject: str) -> str:
        """The text of the newest version of a subject."""
        text: str = self._schemas[self._subjects[subject][-1]]["schema"]
        return text

    def answer(self, call: BaseHTTPRequestHandler, body: Any) -> None:
        self.requests.append(f"{call.command} {call.path}")
        if self.broken:
            failure = self.broken.pop(0)
            status, content = (failure, b"{}") if isinstance(failure, int) else (200, failure)
        else:
            status, document = self._answered(call, body)
            content = json.dumps(document).encode()
        call.send_response(status)
        call.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        call.send_header("Content-Length", str(len(content)))
        call.end_headers()
        call.wfile.write(content)

    def _answered(self, call: BaseHTTPRequestHandler, body: Any) -> tuple[int, Any]:
        if self._authorization is not None and call.headers.get("Authorization") != self._authorization:
            return 401, {"error_code": 401, "message": "Unauthorized"}
        parts = urlsplit(call.path)
        steps = [unquote(step) for step in parts.path.split("/")[1:]]
        is_serialized = parse_qs(parts.query).get("format") == ["serialized"]
        match steps:
            case ["subjects"]:
                return 200, list(self._subjects)
            case ["schemas", "ids", text]:
                found = self._schemas.get(int(text))
                if found is None:
                    return 404, {"error_code": 40403, "message": "Schema not found"}
                return 200, self._shown(int(text), is_serialized)
            case ["subjects", subject, "versions", version]:
                versions = self._subjects.get(subject, [])
                index = len(versions) if version == "latest" else int(version)
                if not 0 < index <= len(versions):
                    return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found"}
                number = versions[index - 1]
                return 200, {"subject": subject, "version": index, "id": number, **self._shown(number, is_serialized)}
            case ["subjects", subject, "versions"]:
                if "incompatible" in body["schema"]:
                    return 409, {"error_code": 409, "message": "a field was removed"}
                return 200, {"id": self.add(subject, body["schema"], body.get("schemaType", "AVRO"))}
            case ["subjects", subject]:
                document = {"schemaType": "AVRO", "references": [], **body}
                number = self._ids.get(json.dumps(document, sort_keys=True), 0)
                if number not in self._subjects.get(subject, []):
                    return 404, {"error_code": 40403, "message": "Schema not found"}
                return 200, {"subject": subject, "id": number, "version": self._subjects[subject].index(number) + 1}
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _shown(self, number: int, is_serialized: bool) -> dict[str, Any]:
        found = dict(self._schemas[number])
        if found["schemaType"] == "PROTOBUF" and is_serialized and self._knows_serialized:
            from google.protobuf import descriptor_pb2

            from ottla.converters.protobuf_schema import compiled_text

            texts = [
                (one["name"], self._schemas[self._subjects[one["subject"]][one["version"] - 1]]["schema"])
                for one in found["references"]
            ]
            files = descriptor_pb2.FileDescriptorSet.FromString(compiled_text(found["schema"], texts)).file
            found["schema"] = base64.b64encode(files[-1].SerializeToString()).decode()
        if found["schemaType"] == "AVRO":
            del found["schemaType"]
        return found


@contextmanager
def schema_registry(**settings: Any) -> Iterator[SchemaRegistry]:
    made = SchemaRegistry(**settings)
    try:
        yield made
    finally:
        made.close()
