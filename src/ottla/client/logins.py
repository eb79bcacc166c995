"""Which credentials a client's settings hold: `sasl.jaas.config` as Java's clients have it, or user and password."""

from __future__ import annotations

import json
import ssl
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from functools import lru_cache

from ottla.client.errors import AuthenticationError, ConfigError, KafkaError, NetworkError
from ottla.client.security_config import ASSERTION_RETRIEVER, SecurityConfig
from ottla.net.bearer_tokens import NoToken, SignedAssertion, TokenEndpoint, TokenFile
from ottla.net.jaas_tls import jaas_context, jaas_tls
from ottla.net.tls_contexts import TlsSettingsError
from ottla.security.assertion import AssertionRules
from ottla.security.authentication import GSSAPI, MECHANISMS, OAUTHBEARER, PLAIN, Credentials
from ottla.security.jaas import LoginModule, parse_jaas

_MODULES = {PLAIN: "PlainLoginModule", OAUTHBEARER: "OAuthBearerLoginModule", GSSAPI: "Krb5LoginModule"}
_SCRAM_MODULE = "ScramLoginModule"
_CLAIM = "unsecuredLoginStringClaim_"
_EXTENSION = "extension_"
UNSECURED_LIFETIME_SECONDS = 3600


def credentials_of(config: SecurityConfig) -> Credentials:
    """The credentials of these settings, checked as far as that needs no broker."""
    mechanism = config.sasl_mechanism
    if mechanism not in MECHANISMS:
        raise ConfigError(
            f"security.protocol is {config.security_protocol}, and sasl.mechanism is {mechanism}: this client "
            f"has {', '.join(MECHANISMS)}. Set sasl.mechanism to what the broker's listener offers"
        )
    module = None if config.sasl_jaas_config is None else _module(config.sasl_jaas_config, mechanism)
    options = {} if module is None else module.options
    if mechanism == OAUTHBEARER:
        return _bearer(config, options)
    if mechanism == GSSAPI:
        return _kerberos(config, options)
    username, password = config.sasl_username, config.sasl_password
    is_token = False
    if module is not None:
        username, password = module.options.get("username"), module.options.get("password")
        is_token = module.options.get("tokenauth", "").lower() == "true"
    if not username or password is None:
        where = "sasl.username and sasl.password" if module is None else "username and password in sasl.jaas.config"
        example = f'org.apache.kafka...{_module_name(mechanism)} required username="..." password="...";'
        raise ConfigError(f"{mechanism} needs {where}" + (f", or sasl.jaas.config={example}" if module is None else ""))
    return Credentials(mechanism, username, password, is_token)


def new_token(credentials: Credentials) -> str:
    """A token from where these credentials have theirs; it may block."""
    assert credentials.token is not None
    try:
        token = credentials.token()
    except NoToken as error:
        raise NetworkError(error.message) from None
    except KafkaError:
        raise
    except Exception as error:
        raise AuthenticationError(f"sasl_oauthbearer_token_provider raised {type(error).__name__}: {error}") from error
    if not isinstance(token, str) or not token:
        raise AuthenticationError(f"sasl_oauthbearer_token_provider returned a {type(token).__name__}, not a token")
    return token


def _module_name(mechanism: str) -> str:
    return _MODULES.get(mechanism, _SCRAM_MODULE)


def _module(text: str, mechanism: str) -> LoginModule:
    try:
        module = parse_jaas(text)
    except ValueError as error:
        raise ConfigError(f"sasl.jaas.config cannot be read: {error}") from None
    if module.name != _module_name(mechanism):
        raise ConfigError(
            f"sasl.jaas.config names {module.name}, but sasl.mechanism is {mechanism}, which goes with "
            f"{_module_name(mechanism)}"
        )
    return module


def _kerberos(config: SecurityConfig, options: Mapping[str, str]) -> Credentials:
    """A ticket of the keytab that the settings name, else of the ticket cache that kinit fills."""
    otherwise = ", ".join(one for one in MECHANISMS if one != GSSAPI)
    service = config.sasl_kerberos_service_name or options.get("serviceName")
    if not service:
        raise ConfigError(
            f"security.protocol is {config.security_protocol}, and sasl.mechanism is GSSAPI, which is Kafka's default: "
            f"set sasl.mechanism to what the broker's listener offers ({otherwise}), or for Kerberos "
            "sasl.kerberos.service.name, which is kafka if the brokers are kafka/HOST@REALM"
        )
    try:
        from ottla.net.kerberos import GssapiClient
    except ImportError as error:
        raise ConfigError(
            f"sasl.mechanism is GSSAPI, which needs the package gssapi ({error}): apt-get install libkrb5-dev gcc, "
            f"then pip install 'ottla[gssapi]'. Without Kerberos there are {otherwise}"
        ) from None
    principal = options.get("principal") or config.sasl_kerberos_principal
    keytab = config.sasl_kerberos_keytab
    if options.get("useKeyTab", "").lower() == "true":
        keytab = options.get("keyTab", "").removeprefix("file:") or keytab
    if keytab and not principal:
        raise ConfigError("a keytab needs the principal to log in as: principal in sasl.jaas.config")
    cache = options.get("ticketCache")

    def mechanism_at(host: str) -> GssapiClient:
        return GssapiClient(service, host, principal, keytab, cache)

    return Credentials(GSSAPI, principal or "", mechanism_at=mechanism_at)


def _bearer(config: SecurityConfig, options: Mapping[str, str]) -> Credentials:
    extensions = {
        name.removeprefix(_EXTENSION): value for name, value in options.items() if name.startswith(_EXTENSION)
    }
    return Credentials(OAUTHBEARER, token=_token_source(config, options), extensions=extensions)


def _token_source(config: SecurityConfig, options: Mapping[str, str]) -> Callable[[], str]:
    if config.sasl_oauthbearer_token_provider is not None:
        return config.sasl_oauthbearer_token_provider
    url = config.sasl_oauthbearer_token_endpoint_url
    assertion = _assertion(config)
    if assertion is not None and url is None:
        raise ConfigError(f"{ASSERTION_RETRIEVER} needs sasl.oauthbearer.token.endpoint.url")
    if url is not None:
        client_id = config.sasl_oauthbearer_client_credentials_client_id or options.get("clientId")
        secret = config.sasl_oauthbearer_client_credentials_client_secret or options.get("clientSecret")
        if assertion is None and (not client_id or not secret):
            raise ConfigError(
                "sasl.oauthbearer.token.endpoint.url needs sasl.oauthbearer.client.credentials.client.id and "
                "sasl.oauthbearer.client.credentials.client.secret (or clientId and clientSecret in sasl.jaas.config)"
            )
        scope = config.sasl_oauthbearer_scope or options.get("scope")
        of_tls = tuple((name, value) for name, value in options.items() if name.startswith("ssl."))
        try:
            jaas_tls(dict(of_tls))
            return _endpoint(config, url, client_id or "", secret or "", scope, of_tls)
        except ValueError as error:
            raise ConfigError(str(error)) from None
    claims = {name.removeprefix(_CLAIM): value for name, value in options.items() if name.startswith(_CLAIM)}
    if claims:
        return lambda: _unsecured_token(claims)
    raise ConfigError(
        "OAUTHBEARER needs a token: set sasl.oauthbearer.token.endpoint.url with a client id and secret, or in Python "
        "sasl_oauthbearer_token_provider to a function that returns one"
    )


@lru_cache(maxsize=16)
def _endpoint(
    config: SecurityConfig,
    url: str,
    client_id: str,
    secret: str,
    scope: str | None,
    of_tls: tuple[tuple[str, str], ...],
) -> TokenEndpoint:
    """One for all connections with these settings, so that they share its token."""
    from ottla.client.tls import token_context

    def context() -> ssl.SSLContext:
        try:
            return jaas_context(dict(of_tls)) if of_tls else token_context(config)
        except TlsSettingsError as error:
            raise ConfigError(str(error)) from None

    is_url_encoded = config.sasl_oauthbearer_header_urlencode
    assertion = _assertion(config)
    return TokenEndpoint(url, client_id, secret, scope, context, is_url_encoded=is_url_encoded, assertion=assertion)


def _assertion(config: SecurityConfig) -> Callable[[], str] | None:
    """The function that makes assertions as the settings say, or None without such settings; ConfigError if it cannot
    be made."""
    file, key_file = config.sasl_oauthbearer_assertion_file, config.sasl_oauthbearer_assertion_private_key_file
    if config.sasl_oauthbearer_jwt_retriever_class != ASSERTION_RETRIEVER:
        if file or key_file:
            raise ConfigError(
                f"sasl.oauthbearer.assertion.* needs sasl.oauthbearer.jwt.retriever.class={ASSERTION_RETRIEVER}"
            )
        return None
    if file:
        return TokenFile(file)
    if not key_file:
        raise ConfigError(
            f"{ASSERTION_RETRIEVER} needs sasl.oauthbearer.assertion.file or "
            "sasl.oauthbearer.assertion.private.key.file"
        )
    try:
        import ottla.security.asymmetric  # noqa: F401
    except ImportError as error:
        raise ConfigError(f"assertions are signed by a package ({error}): pip install 'ottla[security]'") from None
    claims = {
        "iss": config.sasl_oauthbearer_assertion_claim_iss,
        "sub": config.sasl_oauthbearer_assertion_claim_sub,
        "aud": config.sasl_oauthbearer_assertion_claim_aud,
    }
    rules = AssertionRules(
        config.sasl_oauthbearer_assertion_algorithm,
        {name: value for name, value in claims.items() if value is not None},
        config.sasl_oauthbearer_assertion_claim_exp_seconds,
        config.sasl_oauthbearer_assertion_claim_nbf_seconds,
    )
    return SignedAssertion(
        rules,
        key_file,
        config.sasl_oauthbearer_assertion_private_key_passphrase,
        config.sasl_oauthbearer_assertion_template_file,
        has_id=config.sasl_oauthbearer_assertion_claim_jti_include,
    )


def _unsecured_token(claims: Mapping[str, str]) -> str:
    """A token without a signature, as Kafka's own clients make it for brokers under development."""
    now = int(time.time())
    body = {"iat": now, "exp": now + UNSECURED_LIFETIME_SECONDS, **claims}
    parts = (json.dumps(part, separators=(",", ":")).encode() for part in ({"alg": "none"}, body))
    return ".".join(urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts) + "."
