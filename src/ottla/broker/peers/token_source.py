"""The OAUTHBEARER token with which a node logs in to other nodes.

`sasl.oauthbearer.token.endpoint.url` is https, with a client id and a secret (`sasl.oauthbearer.client.credentials.*`,
or `clientId` and `clientSecret` of the login module), or the `file:///` URL of a token that another program renews.
"""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import unquote, urlsplit

from ottla.config import BrokerConfig, ConfigError
from ottla.net.bearer_tokens import TokenEndpoint, TokenFile
from ottla.net.jaas_tls import jaas_context
from ottla.net.tls_contexts import TlsSettingsError
from ottla.security.authentication import OAUTHBEARER, Credentials
from ottla.security.jaas import LoginModule

ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
"""Kafka's system property, as a setting: if it is there, tokens and keys come from one of these addresses."""
_EXTENSION = "extension_"


def check_allowed(config: BrokerConfig, setting: str, url: str) -> None:
    """ConfigError if the settings list allowed addresses for tokens and keys, and this is not one of them."""
    allowed = config.static.get(ALLOWED_URLS)
    if allowed is not None and url not in [one.strip() for one in allowed.split(",")]:
        raise ConfigError(f"{setting} is {url}, which is none of {ALLOWED_URLS}")


def bearer_credentials(config: BrokerConfig, listener: str, module: LoginModule) -> Credentials:
    """The credentials of this node for a listener of other nodes; ConfigError names what is missing."""

    def text(name: str) -> str | None:
        value = config.of_listener(listener, f"sasl.oauthbearer.{name}", OAUTHBEARER)
        return None if value is None or value == "" else str(value)

    prefix = f"listener.name.{listener.lower()}.oauthbearer.sasl.oauthbearer."
    setting = f"{prefix}token.endpoint.url"
    url = text("token.endpoint.url")
    options = module.options
    if url is None:
        raise ConfigError(
            f"{setting} is not set: nodes log in to listener {listener} with a token from there. It is "
            "https://HOST/PATH or file:///PATH"
        )
    check_allowed(config, setting, url)
    extensions = {
        name.removeprefix(_EXTENSION): value for name, value in options.items() if name.startswith(_EXTENSION)
    }
    if url.startswith("file:///"):
        return Credentials(OAUTHBEARER, token=TokenFile(unquote(urlsplit(url).path)), extensions=extensions)
    client_id = text("client.credentials.client.id") or options.get("clientId")
    secret = text("client.credentials.client.secret") or options.get("clientSecret")
    if not client_id or not secret:
        raise ConfigError(
            f"{setting} needs {prefix}client.credentials.client.id and .client.secret, or clientId and clientSecret in "
            "the login module"
        )
    of_tls = tuple((name, value) for name, value in options.items() if name.startswith("ssl."))
    try:
        jaas_context(dict(of_tls))
        source = _endpoint(url, client_id, secret, text("scope") or options.get("scope"), of_tls)
    except TlsSettingsError as error:
        raise ConfigError(f"listener.name.{listener.lower()}.oauthbearer.sasl.jaas.config: {error}") from None
    except ValueError as error:
        raise ConfigError(f"{setting}: {error}") from None
    return Credentials(OAUTHBEARER, token=source, extensions=extensions)


@lru_cache(maxsize=16)
def _endpoint(
    url: str, client_id: str, secret: str, scope: str | None, of_tls: tuple[tuple[str, str], ...]
) -> TokenEndpoint:
    """One endpoint for all connections with these settings, so that they share its token."""
    return TokenEndpoint(url, client_id, secret, scope, lambda: jaas_context(dict(of_tls)))
