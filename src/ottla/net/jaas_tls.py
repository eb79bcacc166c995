"""TLS of the servers that give out OAUTHBEARER tokens and keys: `ssl.*` options of the login module, as in Kafka.

    ...OAuthBearerLoginModule required ssl.truststore.location="/etc/kafka/login-ca.pem" ssl.truststore.type="PEM";

They are separate from the `ssl.*` settings of listeners: an authorization server is seldom signed by the cluster's CA.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping

from ottla.net.tls_contexts import TLS_VERSIONS, TlsSettings, TlsSettingsError, client_context, stamp

_USED = (
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.certificates",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
    "ssl.enabled.protocols",
)
_FOLLOWS = ("ssl.truststore.type", "ssl.keystore.type", "ssl.protocol")
"""Not in the list: the file itself shows its type, and `ssl.enabled.protocols` the versions."""


def jaas_tls(options: Mapping[str, str]) -> TlsSettings | None:
    """The TLS settings among a login module's options; None if there are none. TlsSettingsError says what is wrong."""
    given = {name: value for name, value in options.items() if name.startswith("ssl.")}
    for name in given:
        if name not in _USED and name not in _FOLLOWS:
            raise TlsSettingsError(
                f"the option {name} of the login module has no effect; these have: {', '.join(_USED)}"
            )
    if not given:
        return None
    protocols = tuple(one.strip() for one in given.get("ssl.enabled.protocols", "TLSv1.2,TLSv1.3").split(","))
    if not TLS_VERSIONS.keys() >= set(protocols):
        raise TlsSettingsError(f"the option ssl.enabled.protocols names other versions than {', '.join(TLS_VERSIONS)}")
    return TlsSettings(
        truststore=stamp("ssl.truststore.location", given.get("ssl.truststore.location")),
        truststore_password=given.get("ssl.truststore.password"),
        truststore_certificates=given.get("ssl.truststore.certificates"),
        keystore=stamp("ssl.keystore.location", given.get("ssl.keystore.location")),
        keystore_password=given.get("ssl.keystore.password"),
        keystore_key=given.get("ssl.keystore.key"),
        keystore_certificate_chain=given.get("ssl.keystore.certificate.chain"),
        key_password=given.get("ssl.key.password"),
        checks_name=given.get("ssl.endpoint.identification.algorithm", "https").strip().lower() == "https",
        protocols=protocols,
    )


def jaas_context(options: Mapping[str, str]) -> ssl.SSLContext:
    """The context for a server of tokens or keys: with the trust store of the options, else with the system's CAs."""
    settings = jaas_tls(options)
    return ssl.create_default_context() if settings is None else client_context(settings)
