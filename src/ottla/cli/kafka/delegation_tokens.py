"""kafka-delegation-tokens: create, renew, expire and describe delegation tokens."""

from __future__ import annotations

import asyncio
import time
from base64 import b64decode
from binascii import Error as BinasciiError

from ottla.cli.kafka.connection import connect
from ottla.cli.kafka.failures import execution_failure
from ottla.cli.kafka.options import LONG, Option, OptionParser, Options, ToolError, UsageError, guarded
from ottla.client.admin import Admin, DelegationToken
from ottla.client.errors import KafkaError

PURPOSE = "This tool helps to create, renew, expire, or describe delegation tokens."
ACTIONS = ("create", "renew", "expire", "describe")
ROW = "\n{:<15} {:<30} {:<15} {:<15} {:<25} {:<15} {:<15} {:<15}"
COLUMNS = ("TOKENID", "HMAC", "OWNER", "REQUESTER", "RENEWERS", "ISSUEDATE", "EXPIRYDATE", "MAXDATE")
FORBIDDEN = {
    "create": ("hmac", "renew-time-period", "expiry-time-period"),
    "renew": ("renewer-principal", "max-life-time-period", "expiry-time-period", "owner-principal"),
    "expire": ("renew", "max-life-time-period", "renew-time-period", "owner-principal"),
    "describe": ("renew-time-period", "max-life-time-period", "hmac", "expiry-time-period"),
}
REQUIRED = {
    "create": ("max-life-time-period",),
    "renew": ("hmac", "renew-time-period"),
    "expire": ("hmac", "expiry-time-period"),
    "describe": (),
}


def option_parser() -> OptionParser:
    return OptionParser(
        Option("bootstrap-server", "Any brokers of the cluster; required.", ""),
        Option("command-config", "A properties file for the admin client, with its login; required.", ""),
        Option("create", "Create a token, for which --max-life-time-period is required."),
        Option("renew", "Renew a token: it expires later."),
        Option("expire", "Expire a token, now or later."),
        Option("describe", "Show tokens: those of --owner-principal, or all that may be seen."),
        Option("owner-principal", "An owner, such as User:alice; may be repeated.", "", is_argument_optional=True),
        Option("renewer-principal", "A renewer, such as User:bob; may be repeated.", "", is_argument_optional=True),
        Option(
            "max-life-time-period",
            "Milliseconds after which the token cannot be renewed; -1: as long as the cluster allows.",
            "",
            LONG,
            is_argument_optional=True,
        ),
        Option(
            "renew-time-period",
            "Milliseconds until the token expires; -1: as long as the cluster allows.",
            "",
            LONG,
            is_argument_optional=True,
        ),
        Option(
            "expiry-time-period",
            "Milliseconds until the token expires; -1: now.",
            "",
            LONG,
            is_argument_optional=True,
        ),
        Option("hmac", "The token's secret, as base64.", "", is_argument_optional=True),
    )


def main(arguments: list[str]) -> int:
    parser = option_parser()

    def work() -> None:
        options = parser.parse(arguments)
        options.help_or_version(PURPOSE)
        chosen = [action for action in ACTIONS if options.has(action)]
        if len(chosen) != 1:
            raise UsageError("Command must include exactly one action: --create, --renew, --expire or --describe")
        options.require("bootstrap-server", "command-config", *REQUIRED[chosen[0]])
        options.forbid(chosen[0], *FORBIDDEN[chosen[0]])
        for name in REQUIRED[chosen[0]]:
            if options.value(name) is None:
                what = "the token's secret" if name == "hmac" else "a number of milliseconds"
                raise UsageError(f"--{name} needs {what}")
        asyncio.run(_run(chosen[0], options))

    return guarded(parser, work)


async def _run(action: str, options: Options) -> None:
    admin: Admin = connect(options.value("bootstrap-server"), options.value("command-config"))
    async with admin:
        try:
            if action == "create":
                await _create(admin, options)
            elif action == "describe":
                await _describe(admin, options)
            else:
                await _change(admin, action, options)
        except KafkaError as error:
            raise execution_failure(error) from None


async def _create(admin: Admin, options: Options) -> None:
    renewers, owners = _principals(options, "renewer-principal"), _principals(options, "owner-principal")
    lifetime_ms = options.value("max-life-time-period")
    print(
        f"Calling create token operation with renewers :[{', '.join(renewers)}] , max-life-time-period :{lifetime_ms}"
    )
    owner = owners[0] if owners else None
    token = await admin.create_delegation_token(owner=owner, renewers=renewers, max_lifetime_ms=lifetime_ms)
    print(f"Created delegation token with tokenId : {token.token_id}")
    _show([token])


async def _change(admin: Admin, action: str, options: Options) -> None:
    setting, change = {
        "renew": ("renew-time-period", admin.renew_delegation_token),
        "expire": ("expiry-time-period", admin.expire_delegation_token),
    }[action]
    hmac, period_ms = options.value("hmac"), options.value(setting)
    shown = "renew-time-period" if action == "renew" else "expire-time-period"
    print(f"Calling {action} token operation with hmac :{hmac} , {shown} :{period_ms}")
    try:
        secret = b64decode(hmac, validate=True)
    except (BinasciiError, ValueError):
        raise ToolError("--hmac is no base64: give it as --create and --describe show it") from None
    expiry_timestamp = await change(secret, period_ms=period_ms)
    print(f"Completed {action} operation. New expiry date : {_date(expiry_timestamp)}", end="")


async def _describe(admin: Admin, options: Options) -> None:
    owners = _principals(options, "owner-principal")
    if owners:
        print(f"Calling describe token operation for owners: [{', '.join(owners)}]")
    else:
        print("Calling describe token operation for current user.")
    # Kafka's tool then names no owner and gets no tokens, although its help promises all.
    tokens = await admin.describe_delegation_token(owners or None)
    print(f"Total number of tokens : {len(tokens)}", end="")
    _show(tokens)


def _principals(options: Options, name: str) -> list[str]:
    found = []
    for text in options.values(name) if options.has(name) else []:
        kind, colon, _ = text.strip().partition(":")
        if not colon or not kind:
            raise ToolError(f"expected a string in format principalType:principalName but got {text.strip()}")
        found.append(text.strip())
    return found


def _show(tokens: list[DelegationToken]) -> None:
    print(ROW.format(*COLUMNS))
    for token in tokens:
        print(
            ROW.format(
                token.token_id,
                token.password,
                str(token.owner),
                str(token.requester),
                f"[{', '.join(map(str, token.renewers))}]",
                _date(token.issue_timestamp),
                _date(token.expiry_timestamp),
                _date(token.max_timestamp),
            )
        )


def _date(timestamp: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M", time.localtime(timestamp / 1000))
