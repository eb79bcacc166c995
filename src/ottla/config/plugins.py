"""Java classes that settings name. Ottla cannot load them. Classes of Apache Kafka are known by name; any other class
is refused, since ignoring it would change what is checked.
"""

from __future__ import annotations

from typing import Final

from ottla.config.keys import ConfigError

_SECURITY: Final = "org.apache.kafka.common.security"
_OAUTH: Final = f"{_SECURITY}.oauthbearer"

KNOWN_CLASSES: Final[dict[str, tuple[str, ...]]] = {
    "principal.builder.class": (f"{_SECURITY}.authenticator.DefaultKafkaPrincipalBuilder",),
    "sasl.server.callback.handler.class": (
        f"{_OAUTH}.OAuthBearerValidatorCallbackHandler",
        f"{_OAUTH}.secured.OAuthBearerValidatorCallbackHandler",
    ),
    "sasl.client.callback.handler.class": (),
    "sasl.login.class": (),
    "sasl.login.callback.handler.class": (
        f"{_OAUTH}.OAuthBearerLoginCallbackHandler",
        f"{_OAUTH}.secured.OAuthBearerLoginCallbackHandler",
    ),
    "sasl.oauthbearer.jwt.validator.class": (f"{_OAUTH}.DefaultJwtValidator", f"{_OAUTH}.BrokerJwtValidator"),
    "sasl.oauthbearer.jwt.retriever.class": (
        f"{_OAUTH}.DefaultJwtRetriever",
        f"{_OAUTH}.ClientCredentialsJwtRetriever",
        f"{_OAUTH}.FileJwtRetriever",
    ),
    "security.providers": (),
    "ssl.engine.factory.class": (f"{_SECURITY}.ssl.DefaultSslEngineFactory",),
    "ssl.provider": (),
}
"""Setting -> the classes whose work Ottla does itself."""

_UNSECURED: Final = "OAuthBearerUnsecuredValidatorCallbackHandler"


def class_setting(name: str) -> str | None:
    """The setting of KNOWN_CLASSES that a name stands for, also with the prefixes of a listener and a mechanism."""
    if name in KNOWN_CLASSES:
        return name
    if name.startswith("listener.name."):
        return next((setting for setting in KNOWN_CLASSES if name.endswith("." + setting)), None)
    return None


def check_class(name: str, text: str) -> None:
    """ConfigError if a setting names a Java class whose work Ottla does not do."""
    setting = class_setting(name)
    given = text.strip()
    if setting is None or not given or given in KNOWN_CLASSES[setting]:
        return
    if given.endswith(_UNSECURED):
        raise ConfigError(
            f"{name} cannot be {given}: it accepts tokens that no one signed. Remove it, and set "
            "sasl.oauthbearer.jwks.endpoint.url to the keys that tokens are signed with"
        )
    known = " or ".join(KNOWN_CLASSES[setting])
    only = f"; Ottla does what {known} does" if known else ""
    raise ConfigError(
        f"{name} cannot be {given}: Ottla does not run Java classes, and going on without it is unsafe{only}. "
        "Remove the setting"
    )
