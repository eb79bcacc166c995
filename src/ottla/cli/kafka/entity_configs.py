"""Settings of topics, brokers, groups and client metrics, quotas, and SCRAM credentials, as kafka-configs shows and
changes them."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence

from ottla.cli.kafka.exceptions import java_class, java_message
from ottla.cli.kafka.failures import execution_failure
from ottla.cli.kafka.java import hash_order, java_double, string_hash
from ottla.cli.kafka.options import ToolError
from ottla.client.admin import Admin, ConfigChange, ConfigEntry, ConfigResource, ConfigSource, Operation, ResourceType
from ottla.client.admin.configs import QuotaEntity
from ottla.client.errors import ErrorCode, KafkaError, RequestTimedOut, error_of
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from ottla.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)

TOPICS, CLIENTS, USERS, BROKERS, IPS = "topics", "clients", "users", "brokers", "ips"
CLIENT_METRICS, GROUPS, BROKER_LOGGERS = "client-metrics", "groups", "broker-loggers"
INVALID_CONFIGURATION = java_class(ErrorCode.INVALID_CONFIG)
CLIENT_QUOTAS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
IP_QUOTAS = ("connection_creation_rate",)
SCRAM = {"SCRAM-SHA-256": (1, "sha256"), "SCRAM-SHA-512": (2, "sha512")}
SCRAM_ITERATIONS = MIN_SCRAM_ITERATIONS = 4096
QUOTA_KINDS = {USERS: "user", CLIENTS: "client-id", IPS: "ip"}
ANY_NAME = 2
TIMEOUT_MS = 30_000
_SHOWN_KINDS = (("user", "user-principal"), ("client-id", "client-id"), ("ip", "ip"))
_RESOURCES = {
    TOPICS: (ResourceType.TOPIC, ConfigSource.DYNAMIC_TOPIC),
    BROKERS: (ResourceType.BROKER, ConfigSource.DYNAMIC_BROKER),
    BROKER_LOGGERS: (ResourceType.BROKER_LOGGER, None),
    CLIENT_METRICS: (ResourceType.CLIENT_METRICS, ConfigSource.CLIENT_METRICS),
    GROUPS: (ResourceType.GROUP, ConfigSource.GROUP),
}


class ConfigAdmin(Admin):
    """An admin client that also requests quotas of any name, and SCRAM credentials."""

    async def matching_quotas(
        self, entity: Mapping[str, str | None], *any_of: str
    ) -> dict[QuotaEntity, dict[str, float]]:
        """Quotas of just these types: of this name, of the default (None), or of whatever name (`any_of`)."""
        components = [
            ComponentData(entity_type=kind, match_type=1 if name is None else 0, match=name)
            for kind, name in entity.items()
        ]
        components += [ComponentData(entity_type=kind, match_type=ANY_NAME, match=None) for kind in any_of]

        async def ask() -> dict[QuotaEntity, dict[str, float]]:
            response: DescribeClientQuotasResponse = await self._ask_any(
                DescribeClientQuotasRequest(components=components, strict=True)
            )
            if response.error_code:
                raise error_of(response.error_code, response.error_message)
            return {
                tuple((part.entity_type, part.entity_name) for part in entry.entity): {
                    value.key: value.value for value in entry.values
                }
                for entry in response.entries or []
            }

        return await self._one(ask)

    async def scram_credentials(self, users: Sequence[str]) -> dict[str, list[tuple[str, int]] | KafkaError]:
        """Mechanism and iterations of each user that has credentials; of all users, if none is named."""

        async def ask() -> dict[str, list[tuple[str, int]] | KafkaError]:
            request = DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in users])
            response: DescribeUserScramCredentialsResponse = await self._ask_any(request)
            if response.error_code:
                raise error_of(response.error_code, response.error_message)
            names = {number: name for name, (number, _) in SCRAM.items()}
            return {
                one.user: error_of(one.error_code, one.error_message)
                if one.error_code
                else [(names.get(info.mechanism, "UNKNOWN"), info.iterations) for info in one.credential_infos]
                for one in response.results
                if one.error_code != ErrorCode.RESOURCE_NOT_FOUND
            }

        return await self._one(ask)

    async def alter_scram(self, request: AlterUserScramCredentialsRequest) -> None:
        async def ask() -> None:
            response: AlterUserScramCredentialsResponse = await self._ask_controller(request)
            for one in response.results:
                if one.error_code:
                    raise error_of(one.error_code, one.error_message)

        await self._one(ask)


# --- describing


async def describe(admin: ConfigAdmin, types: Sequence[str], names: Sequence[str], *, shows_all: bool) -> None:
    kind = types[0]
    if kind in _RESOURCES:
        await _describe_resources(admin, kind, names[0] if names else None, shows_all=shows_all)
        return
    await _describe_quotas(admin, types, names)
    if kind != IPS and CLIENTS not in types and "" not in names:
        for user, found in (await admin.scram_credentials(names)).items():
            if isinstance(found, KafkaError):
                name = java_class(found.code).rpartition(".")[2]
                print(
                    f"Error retrieving SCRAM credential configs for user-principal '{user}': "
                    f"{name}: {java_message(found)}"
                )
            else:
                told = ", ".join(f"{mechanism}=iterations={iterations}" for mechanism, iterations in found)
                print(f"SCRAM credential configs for user-principal '{user}' are {told}")


async def _describe_resources(admin: ConfigAdmin, kind: str, name: str | None, *, shows_all: bool) -> None:
    if kind == TOPICS and name is not None:
        check_topic_name(name)
    if name is not None and not shows_all and not await _exists(admin, kind, name):
        print(f"The {kind[:-1]} '{name}' doesn't exist and doesn't have dynamic config.")
        return
    for one in [name] if name is not None else await _all_names(admin, kind):
        if one == "":
            print(f"Default configs for {kind} in the cluster are:")
        else:
            print(f"{'All' if shows_all else 'Dynamic'} configs for {kind[:-1]} {one} are:")
        for entry in await _entries(admin, kind, one, shows_all=shows_all):
            synonyms = ", ".join(f"{s.source.kafka_name}:{s.name}={_text(s.value)}" for s in entry.synonyms)
            print(
                f"  {entry.name}={_text(entry.value)} sensitive={str(entry.is_sensitive).lower()} "
                f"synonyms={{{synonyms}}}"
            )


async def _exists(admin: ConfigAdmin, kind: str, name: str) -> bool:
    return kind == BROKER_LOGGERS or name == "" or name in await _all_names(admin, kind)


async def _all_names(admin: ConfigAdmin, kind: str) -> list[str]:
    if kind == TOPICS:
        return hash_order(await admin.list_topics(include_internal=True))
    if kind in (BROKERS, BROKER_LOGGERS):
        return [*(str(broker.id) for broker in (await admin.describe_cluster()).brokers), ""]
    resource_type = _RESOURCES[kind][0]
    names = [one.name for one in await admin.list_config_resources([resource_type])]
    if kind == GROUPS:
        names += [group.group_id for group in await admin.list_groups() if group.group_id not in names]
    return names


async def _entries(admin: ConfigAdmin, kind: str, name: str, *, shows_all: bool) -> list[ConfigEntry]:
    resource_type, source = _RESOURCES[kind]
    if kind == BROKERS and name == "":
        source = ConfigSource.DYNAMIC_DEFAULT_BROKER
    resource = ConfigResource(resource_type, name)
    found = (await admin.describe_configs([resource], include_synonyms=True))[resource]
    return [found[one] for one in sorted(found) if shows_all or source is None or found[one].source is source]


async def _describe_quotas(admin: ConfigAdmin, types: Sequence[str], names: Sequence[str]) -> None:
    quotas = await _quotas(admin, types, names)
    for entity in hash_order(quotas, len(quotas), _entity_hash):
        of = dict(entity)
        told = ", ".join(
            f"the default {shown}" if of[kind] is None else f"{shown} '{of[kind]}'"
            for kind, shown in _SHOWN_KINDS
            if kind in of
        )
        values = quotas[entity]
        told_values = ", ".join(f"{key}={java_double(values[key])}" for key in hash_order(values, len(values)))
        print(f"Quota configs for {told} are {told_values}")


async def _quotas(
    admin: ConfigAdmin, types: Sequence[str], names: Sequence[str]
) -> dict[QuotaEntity, dict[str, float]]:
    if len(names) > len(types):
        raise ToolError("More entity names specified than entity types")
    named = {QUOTA_KINDS[kind]: name or None for kind, name in zip(types, names, strict=False)}
    return await admin.matching_quotas(named, *(QUOTA_KINDS[kind] for kind in types[len(names) :]))


def _entity_hash(entity: QuotaEntity) -> int:
    """The hash of Java's ClientQuotaEntity: of the map of types to names."""
    return 31 + sum(string_hash(kind) ^ (string_hash(name) if name is not None else 0) for kind, name in entity)


def _text(value: str | None) -> str:
    return "null" if value is None else value


# --- changing


async def alter(
    admin: ConfigAdmin, types: Sequence[str], names: Sequence[str], added: dict[str, str], deleted: Sequence[str]
) -> None:
    kind, name = types[0], names[0]
    if kind in _RESOURCES:
        if kind == BROKER_LOGGERS:
            await _check_loggers(admin, name, [*deleted, *added])
        changes = [ConfigChange(key, value) for key, value in added.items()]
        changes += [ConfigChange(key, "", Operation.DELETE) for key in deleted]
        await admin.alter_configs({ConfigResource(_RESOURCES[kind][0], name): changes})
    elif kind == IPS:
        unknown = [key for key in (*added, *deleted) if key not in IP_QUOTAS]
        if unknown:
            raise ToolError(
                f"Only connection quota configs can be added for '{IPS}' using --bootstrap-server. "
                f"Unexpected config names: {','.join(unknown)}"
            )
        await _alter_quotas(admin, types, names, added, deleted)
    else:
        _check_client_names(types, names, added, deleted)
        if any(key in CLIENT_QUOTAS for key in (*added, *deleted)):
            await _alter_quotas(admin, types, names, added, deleted)
        else:
            await _alter_scram(admin, name, added, deleted)
    if name:
        print(f"Completed updating config for {kind[:-1]} {name}.")
    else:
        print(f"Completed updating default config for {kind} in the cluster.")


async def _check_loggers(admin: ConfigAdmin, broker: str, names: Iterable[str]) -> None:
    known = {entry.name for entry in await _entries(admin, BROKER_LOGGERS, broker, shows_all=False)}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ToolError(f"Invalid broker logger(s): {','.join(unknown)}", INVALID_CONFIGURATION)


def _check_client_names(
    types: Sequence[str], names: Sequence[str], added: Iterable[str], deleted: Sequence[str]
) -> None:
    """Users have quotas or SCRAM credentials, clients quotas only."""
    is_client = types[0] == CLIENTS or len(types) == 2
    known = CLIENT_QUOTAS if is_client else (*CLIENT_QUOTAS, *SCRAM)
    of, what = (CLIENTS, "quota") if is_client else (USERS, "quota and SCRAM credential")
    for verb, keys, container in (("added", hash_order(added), "Set"), ("deleted", deleted, "ArrayBuffer")):
        unknown = [key for key in keys if key not in known]
        if unknown:
            raise ToolError(
                f"Only {what} configs can be {verb} for '{of}' using --bootstrap-server. "
                f"Unexpected config names: {container}({', '.join(unknown)})"
            )
    keys = [*added, *deleted]
    if any(key in SCRAM for key in keys):
        if "" in names:
            raise ToolError(
                "The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials using "
                "--bootstrap-server."
            )
        if any(key in CLIENT_QUOTAS for key in keys):
            raise ToolError(
                f"Cannot alter both quota and SCRAM credential configs simultaneously for '{USERS}' using "
                "--bootstrap-server."
            )


async def _alter_quotas(
    admin: ConfigAdmin, types: Sequence[str], names: Sequence[str], added: dict[str, str], deleted: Sequence[str]
) -> None:
    entity: QuotaEntity = tuple((QUOTA_KINDS[kind], name or None) for kind, name in zip(types, names, strict=True))
    found = await _quotas(admin, types, names)
    old = next(iter(found.values())) if found else {}
    missing = [key for key in deleted if key not in old]
    if missing:
        raise ToolError(f"Invalid config(s): {','.join(missing)}", INVALID_CONFIGURATION)
    changes: dict[str, float | None] = {}
    for key, value in added.items():
        try:
            changes[key] = float(value)
        except ValueError:
            raise ToolError(f"Cannot parse quota configuration value for {key}: {value}") from None
    changes.update(dict.fromkeys(deleted))
    await admin.alter_client_quotas({entity: changes})


async def _alter_scram(admin: ConfigAdmin, user: str, added: dict[str, str], deleted: Sequence[str]) -> None:
    request = AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion(name=user, mechanism=SCRAM[name][0]) for name in deleted],
        upsertions=[_scram_credential(user, mechanism, text) for mechanism, text in added.items()],
    )
    await admin.alter_scram(request)


def _scram_credential(user: str, mechanism: str, text: str) -> ScramCredentialUpsertion:
    """A password, salted here: it never leaves this machine."""
    found = re.fullmatch(r"(?:iterations=(-?[0-9]*),)?password=(.*)", text, re.DOTALL)
    if found is None:
        # Kafka's tool repeats the value, which may be a password.
        raise ToolError(f"Invalid credential property {mechanism.replace('-', '_')}=[hidden]")
    given = found[1]
    iterations = int(given) if given not in (None, "", "-", "-1") else SCRAM_ITERATIONS
    if iterations < MIN_SCRAM_ITERATIONS:
        raise ToolError(
            f"Iterations {iterations} is less than the minimum {MIN_SCRAM_ITERATIONS} required for {mechanism}"
        )
    number, digest = SCRAM[mechanism]
    salt = secrets.token_bytes(24)
    return ScramCredentialUpsertion(
        name=user,
        mechanism=number,
        iterations=iterations,
        salt=salt,
        salted_password=hashlib.pbkdf2_hmac(digest, found[2].encode(), salt, iterations),
    )


def check_topic_name(name: str) -> None:
    """The message of Kafka's client about an impossible topic name."""
    if not name:
        raise ToolError("Topic name is invalid: the empty string is not allowed")


def failure(error: KafkaError) -> ToolError:
    """As the tool's futures fail."""
    if isinstance(error, RequestTimedOut):
        return execution_failure(ToolError(str(error.message), java_class(error.code)))
    return execution_failure(error)
