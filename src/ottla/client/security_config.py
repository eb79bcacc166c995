"""The settings of a secured connection: Kafka's names and defaults, and the few that Python users know from librdkafka.

Whatever can be checked without a file or a broker is checked when the settings are read. Secrets stay out of `repr` and
out of every error.
"""

# ruff: noqa: RUF009

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.client.errors import ConfigError
from ottla.client.settings import Settings, setting
from ottla.security.assertion import ALGORITHMS

if TYPE_CHECKING:
    from ottla.security.authentication import Credentials

PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL = "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"
PROTOCOLS = (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)
TokenProvider = Callable[[], str]
TLS_PROTOCOLS = ("TLSv1.2", "TLSv1.3")
STORE_TYPES = ("JKS", "PKCS12", "PEM")

UNUSED = (
    "sasl.client.callback.handler.class",
    "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.ticket.renew.jitter",
    "sasl.kerberos.ticket.renew.window.factor",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms",
    "sasl.login.refresh.buffer.seconds",
    "sasl.login.refresh.min.period.seconds",
    "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter",
    "sasl.login.retry.backoff.max.ms",
    "sasl.login.retry.backoff.ms",
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.expected.issuer",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    "sasl.oauthbearer.jwks.endpoint.url",
    "sasl.oauthbearer.jwt.validator.class",
    "sasl.oauthbearer.scope.claim.name",
    "sasl.oauthbearer.sub.claim.name",
    "ssl.keymanager.algorithm",
    "ssl.protocol",
    "ssl.provider",
    "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
)
"""Settings of Java's clients that say how Java goes about it, and those by which a broker looks at tokens."""

REFUSED = {
    "ssl.cipher.suites": "the ciphers are those that OpenSSL finds good; ssl.enabled.protocols can be set",
    "ssl.engine.factory.class": "it is a class of Java's; ssl.truststore.* and ssl.keystore.* name the stores",
}
"""Settings that would be missed, or that make a connection safer: ignoring them silently would be wrong."""


_OAUTH = "org.apache.kafka.common.security.oauthbearer"
DEFAULT_RETRIEVER = f"{_OAUTH}.DefaultJwtRetriever"
ASSERTION_RETRIEVER = f"{_OAUTH}.JwtBearerJwtRetriever"


def parse_upper(given: object) -> object:
    return given.strip().upper() if isinstance(given, str) else given


def _parse_identification(given: object) -> object:
    """Empty turns it off in Java's clients, `none` in librdkafka's."""
    name = given.strip().lower() if isinstance(given, str) else given
    return "" if name in ("none", None) else name


def _parse_provider(given: object) -> object:
    if given is not None and not callable(given):
        raise ValueError("it is a function without arguments that returns a token")
    return given


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityConfig(Settings):
    """How a client and a broker make sure of each other."""

    security_protocol: str = setting(
        PLAINTEXT,
        "How brokers are talked to: in the open, inside TLS, after a login by SASL, or both.",
        one_of=PROTOCOLS,
        parse=parse_upper,
    )
    ssl_truststore_type: str = setting(
        "JKS", "What the trust store is; the file itself tells, too.", one_of=STORE_TYPES, parse=parse_upper
    )
    ssl_truststore_location: str | None = setting(
        None, "The file with the certificates of the CAs that brokers are trusted by; without one, the system's CAs."
    )
    ssl_truststore_password: str | None = setting(None, "The password of that file.", is_secret=True)
    ssl_truststore_certificates: str | None = setting(None, "The certificates of those CAs themselves, as PEM.")
    ssl_keystore_type: str = setting(
        "JKS", "What the key store is; the file itself tells, too.", one_of=STORE_TYPES, parse=parse_upper
    )
    ssl_keystore_location: str | None = setting(
        None, "The file with this client's private key and certificate, for brokers that ask for one."
    )
    ssl_keystore_password: str | None = setting(None, "The password of that file.", is_secret=True)
    ssl_keystore_key: str | None = setting(None, "This client's private key itself, as PEM.", is_secret=True)
    ssl_keystore_certificate_chain: str | None = setting(
        None, "This client's certificate and those between it and its CA, as PEM."
    )
    ssl_key_password: str | None = setting(None, "The password of the private key.", is_secret=True)
    ssl_ca_location: str | None = setting(None, "A PEM file with the CAs' certificates, as librdkafka calls it.")
    ssl_certificate_location: str | None = setting(
        None, "A PEM file with this client's certificate, as librdkafka calls it."
    )
    ssl_key_location: str | None = setting(None, "A PEM file with its private key, as librdkafka calls it.")
    ssl_endpoint_identification_algorithm: str = setting(
        "https",
        "https: a broker's certificate must name the host that was connected; empty: any name will do.",
        one_of=("https", ""),
        parse=_parse_identification,
    )
    ssl_enabled_protocols: tuple[str, ...] = setting(("TLSv1.2", "TLSv1.3"), "The versions of TLS that may be spoken.")
    sasl_mechanism: str = setting(
        "GSSAPI", "How to log in: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or GSSAPI.", parse=parse_upper
    )
    sasl_kerberos_service_name: str | None = setting(None, "The first part of the brokers' Kerberos names: kafka.")
    sasl_kerberos_principal: str | None = setting(None, "The Kerberos name to log in as, as librdkafka calls it.")
    sasl_kerberos_keytab: str | None = setting(None, "A file with its key, as librdkafka calls it.")
    sasl_jaas_config: str | None = setting(
        None, "The credentials as Java's clients have them: a login module and its options.", is_secret=True
    )
    sasl_username: str | None = setting(None, "Who logs in, in place of sasl.jaas.config.")
    sasl_password: str | None = setting(None, "The password, in place of sasl.jaas.config.", is_secret=True)
    sasl_oauthbearer_token_provider: TokenProvider | None = setting(
        None, "A function that returns a token, called before each login.", parse=_parse_provider
    )
    sasl_oauthbearer_token_endpoint_url: str | None = setting(
        None, "The server that issues tokens for a client id and its secret."
    )
    sasl_oauthbearer_client_credentials_client_id: str | None = setting(None, "The client id to ask for a token with.")
    sasl_oauthbearer_client_credentials_client_secret: str | None = setting(
        None, "The secret to ask for a token with.", is_secret=True
    )
    sasl_oauthbearer_scope: str | None = setting(None, "The scope to ask for with it.")
    sasl_oauthbearer_header_urlencode: bool = setting(
        False, "Whether id and secret are URL-encoded on their way, as RFC 6749 wants it; some servers do not."
    )

    sasl_oauthbearer_jwt_retriever_class: str = setting(
        DEFAULT_RETRIEVER,
        "By what a token is asked for: a client id and its secret, or with JwtBearerJwtRetriever an assertion.",
        one_of=(DEFAULT_RETRIEVER, f"{_OAUTH}.ClientCredentialsJwtRetriever", ASSERTION_RETRIEVER),
    )
    sasl_oauthbearer_assertion_file: str | None = setting(None, "A file with an assertion that is ready to be sent.")
    sasl_oauthbearer_assertion_private_key_file: str | None = setting(
        None, "A PEM file with the key that signs assertions."
    )
    sasl_oauthbearer_assertion_private_key_passphrase: str | None = setting(
        None, "The passphrase of that key.", is_secret=True
    )
    sasl_oauthbearer_assertion_algorithm: str = setting(
        "RS256", "How assertions are signed.", one_of=ALGORITHMS, parse=parse_upper
    )
    sasl_oauthbearer_assertion_template_file: str | None = setting(
        None, 'A JSON file with further claims: {"header": {...}, "payload": {...}}.'
    )
    sasl_oauthbearer_assertion_claim_iss: str | None = setting(None, "The issuer in assertions.")
    sasl_oauthbearer_assertion_claim_sub: str | None = setting(None, "The subject in assertions.")
    sasl_oauthbearer_assertion_claim_aud: str | None = setting(None, "The audience in assertions.")
    sasl_oauthbearer_assertion_claim_exp_seconds: int = setting(
        300, "How long an assertion is valid.", low=0, high=86_400
    )
    sasl_oauthbearer_assertion_claim_nbf_seconds: int = setting(
        60, "How long before it is made an assertion is valid.", low=0, high=3_600
    )
    sasl_oauthbearer_assertion_claim_jti_include: bool = setting(False, "Whether assertions have an id each.")

    def __post_init__(self) -> None:
        super(SecurityConfig, self).__post_init__()
        for name in self.ssl_enabled_protocols:
            if name not in TLS_PROTOCOLS:
                raise ConfigError(
                    f"Invalid value {name!r} for ssl.enabled.protocols: it is one or both of {', '.join(TLS_PROTOCOLS)}"
                )
        if not self.ssl_enabled_protocols:
            raise ConfigError("Invalid value for ssl.enabled.protocols: it names no version of TLS")
        if self.has_sasl:
            self.credentials()

    @property
    def has_tls(self) -> bool:
        return self.security_protocol in (SSL, SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        return self.security_protocol in (SASL_PLAINTEXT, SASL_SSL)

    def credentials(self) -> Credentials:
        """The login and its mechanism; ConfigError if the settings do not have them."""
        from ottla.client.logins import credentials_of

        return credentials_of(self)
