"""An issuer of OpenID Connect in miniature, on this machine: discovery, a login that always succeeds, tokens."""

from __future__ import annotations

import base64
import hashlib
import http.server
import json
import secrets
import threading
import time
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.signed_tokens import SigningKey

CLIENT = "console"


class Issuer:
    """Everybody is `subject`; tokens live `lifetime_s` and are signed by `key`."""

    def __init__(self, key: SigningKey, subject: str = "carol", lifetime_s: float = 600) -> None:
        self.key = key
        self.subject = subject
        self.lifetime_s = lifetime_s
        self.is_revoked = False
        self.refresh_count = 0
        self._challenges: dict[str, tuple[str, str]] = {}
        issuer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.get(self)

            def do_POST(self) -> None:
                issuer.post(self)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://localhost:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def token(self, subject: str | None = None, **more: Any) -> str:
        now = int(time.time())
        about = {"iss": "https://issuer", "aud": "kafka", "iat": now, "exp": now + 600}
        return self.key.token({"sub": subject or self.subject, **about, **more})

    def get(self, request: http.server.BaseHTTPRequestHandler) -> None:
        parts = urlsplit(request.path)
        asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if parts.path == "/.well-known/openid-configuration":
            places = {"authorization_endpoint": f"{self.url}/authorize", "token_endpoint": f"{self.url}/token"}
            _answer(request, 200, {"issuer": self.url, **places})
        elif parts.path == "/authorize" and asked.get("client_id") == CLIENT:
            assert asked["response_type"] == "code" and asked["code_challenge_method"] == "S256"
            code = secrets.token_urlsafe(8)
            self._challenges[code] = (asked["code_challenge"], asked["redirect_uri"])
            request.send_response(302)
            query = urlencode({"code": code, "state": asked["state"]})
            request.send_header("Location", f"{asked['redirect_uri']}?{query}")
            request.end_headers()
        else:
            _answer(request, 404, {})

    def post(self, request: http.server.BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers["Content-Length"]))
        form = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        if form["grant_type"] == "authorization_code":
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
            is_right = self._challenges.pop(form["code"], None) == (challenge, form["redirect_uri"])
        else:
            self.refresh_count += 1
            is_right = form["refresh_token"] == "refresh" and not self.is_revoked
        if is_right:
            lives = {"expires_in": self.lifetime_s, "refresh_token": "refresh"}
            _answer(request, 200, {"access_token": self.token(), "token_type": "Bearer", **lives})
        else:
            _answer(request, 400, {"error": "invalid_grant"})


def _answer(request: http.server.BaseHTTPRequestHandler, status: int, document: Any) -> None:
    data = json.dumps(document).encode()
    request.send_response(status)
    request.send_header("Content-Type", "application/json")
    request.send_header("Content-Length", str(len(data)))
    request.end_headers()
    request.wfile.write(data)
