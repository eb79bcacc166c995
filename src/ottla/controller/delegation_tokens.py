"""Delegation tokens (KIP-48, KIP-373) in the metadata log: created, renewed, expired and removed.

The log holds a token's owner, requester, renewers and times. Its secret follows from its id and
`delegation.token.secret.key`: a controller without that key refuses all commands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ottla.cluster.features import METADATA_VERSION, supports_delegation_tokens
from ottla.machine import Decision
from ottla.security.delegation_tokens import concerns, is_expired, token_secret
from ottla.security.principal import USER, Principal
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from ottla.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from ottla.wire.messages.records.delegation_token_record import DelegationTokenRecord
from ottla.wire.messages.records.remove_delegation_token_record import RemoveDelegationTokenRecord
from ottla.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from ottla.wire.primitives import uuid_text

if TYPE_CHECKING:
    from ottla.controller.view import View

MAX_REMOVED_AT_ONCE = 1_000
MAX_TOKENS_PER_REQUESTER = 10_000
"""Users may create tokens for themselves, so a limit keeps one user from filling the memory of all nodes. Kafka has no
limit.
"""
MAX_RENEWERS = 1_000
LATEST_TIMESTAMP = 2**63 - 1


class TokenIndex:
    """Which token a secret belongs to, and how many tokens each requester has. Empty without a secret key."""

    __slots__ = ("_secret_key", "_secrets", "_token_ids", "counts")

    def __init__(self, secret_key: str | None, tokens: Mapping[str, DelegationTokenRecord]) -> None:
        self._secret_key = secret_key
        self._token_ids: dict[bytes, str] = {}
        self._secrets: dict[str, tuple[bytes, str]] = {}
        self.counts: Counter[str] = Counter()
        self.changed(tokens, tokens)

    def token_id(self, secret: bytes) -> str | None:
        return self._token_ids.get(bytes(secret))

    def changed(self, token_ids: Iterable[str], tokens: Mapping[str, DelegationTokenRecord]) -> None:
        if not self._secret_key:
            return
        for token_id in token_ids:
            known, token = self._secrets.get(token_id), tokens.get(token_id)
            if token is not None and known is None:
                secret = token_secret(token_id, self._secret_key)
                self._secrets[token_id] = (secret, token.requester)
                self._token_ids[secret] = token_id
                self.counts[token.requester] += 1
            elif token is None and known is not None:
                del self._secrets[token_id], self._token_ids[known[0]]
                self.counts[known[1]] -= 1
                if not self.counts[known[1]]:
                    del self.counts[known[1]]


def create_delegation_token(
    view: View, request: CreateDelegationTokenRequest, requester: Principal, timestamp: int
) -> Decision[CreateDelegationTokenResponse]:
    """A new token for the requester, or for the owner that it names. The reply has the token's secret."""
    owner = token_owner(request, requester)
    response = CreateDelegationTokenResponse(
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
    )
    try:
        secret_key = _secret_key(view)
        _check_request(view, request, requester)
    except KafkaError as error:
        response.error_code = error.code
        return Decision([], response)
    lifetime_ms = view.config.delegation_token_max_lifetime_ms
    if request.max_lifetime_ms > 0:
        lifetime_ms = min(lifetime_ms, request.max_lifetime_ms)
    response.issue_timestamp_ms = timestamp
    response.max_timestamp_ms = _later(timestamp, lifetime_ms)
    response.expiry_timestamp_ms = min(
        response.max_timestamp_ms, _later(timestamp, view.config.delegation_token_expiry_time_ms)
    )
    response.token_id = _new_token_id(view)
    response.hmac = token_secret(response.token_id, secret_key)
    record = DelegationTokenRecord(
        owner=str(owner),
        requester=str(requester),
        renewers=[f"{renewer.principal_type}:{renewer.principal_name}" for renewer in request.renewers],
        issue_timestamp=timestamp,
        max_timestamp=response.max_timestamp_ms,
        expiration_timestamp=response.expiry_timestamp_ms,
        token_id=response.token_id,
    )
    return Decision([record], response)


def renew_delegation_token(
    view: View, request: RenewDelegationTokenRequest, principal: Principal, timestamp: int
) -> Decision[RenewDelegationTokenResponse]:
    """Extend the token's expiry, at most to its max timestamp."""
    try:
        token = _found(view, request.hmac)
        if is_expired(token, timestamp):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
        _check_concerns(token, principal)
    except KafkaError as error:
        return Decision([], RenewDelegationTokenResponse(error_code=error.code))
    period_ms = view.config.delegation_token_expiry_time_ms
    if request.renew_period_ms > 0:
        period_ms = min(period_ms, request.renew_period_ms)
    expires_at = min(token.max_timestamp, _later(timestamp, period_ms))
    return Decision([_expiring(token, expires_at)], RenewDelegationTokenResponse(expiry_timestamp_ms=expires_at))


def expire_delegation_token(
    view: View, request: ExpireDelegationTokenRequest, principal: Principal, timestamp: int
) -> Decision[ExpireDelegationTokenResponse]:
    """The token expires after a period, or now (a period below 0), when it is removed at once."""
    try:
        token = _found(view, request.hmac)
        _check_concerns(token, principal)
        if request.expiry_time_period_ms < 0:
            removed = RemoveDelegationTokenRecord(token_id=token.token_id)
            return Decision([removed], ExpireDelegationTokenResponse(expiry_timestamp_ms=timestamp))
        if is_expired(token, timestamp):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    except KafkaError as error:
        return Decision([], ExpireDelegationTokenResponse(error_code=error.code))
    expires_at = min(token.max_timestamp, _later(timestamp, request.expiry_time_period_ms))
    return Decision([_expiring(token, expires_at)], ExpireDelegationTokenResponse(expiry_timestamp_ms=expires_at))


def remove_expired_tokens(view: View, timestamp: int) -> Decision[bool]:
    """Remove expired tokens. The reply says whether more may remain to be removed at once."""
    records: list[RemoveDelegationTokenRecord] = []
    for token in view.image.delegation_tokens.values():
        if is_expired(token, timestamp):
            records.append(RemoveDelegationTokenRecord(token_id=token.token_id))
            if len(records) == MAX_REMOVED_AT_ONCE:
                return Decision(list(records), True, is_atomic=False)
    return Decision(list(records), False, is_atomic=False)


def token_owner(request: CreateDelegationTokenRequest, requester: Principal) -> Principal:
    """The owner that a request names, or the requester."""
    if not request.owner_principal_name:
        return requester
    return Principal(request.owner_principal_type or "", request.owner_principal_name)


def _secret_key(view: View) -> str:
    secret_key = view.config.delegation_token_secret_key
    if not secret_key:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    if not supports_delegation_tokens(view.image.features.get(METADATA_VERSION, 0)):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    return secret_key


def _check_request(view: View, request: CreateDelegationTokenRequest, requester: Principal) -> None:
    if any(renewer.principal_type != USER for renewer in request.renewers):
        raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE)
    if len(request.renewers) > MAX_RENEWERS or view.tokens.counts[str(requester)] >= MAX_TOKENS_PER_REQUESTER:
        raise KafkaError(ErrorCode.POLICY_VIOLATION)


def _found(view: View, secret: bytes) -> DelegationTokenRecord:
    _secret_key(view)
    token_id = view.tokens.token_id(secret)
    if token_id is None:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    return view.image.delegation_tokens[token_id]


def _check_concerns(token: DelegationTokenRecord, principal: Principal) -> None:
    if not concerns(token, principal):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)


def _expiring(token: DelegationTokenRecord, expires_at: int) -> DelegationTokenRecord:
    return DelegationTokenRecord(
        owner=token.owner,
        requester=token.requester,
        renewers=list(token.renewers),
        issue_timestamp=token.issue_timestamp,
        max_timestamp=token.max_timestamp,
        expiration_timestamp=expires_at,
        token_id=token.token_id,
    )


def _later(timestamp: int, duration_ms: int) -> int:
    return min(timestamp + duration_ms, LATEST_TIMESTAMP)


def _new_token_id(view: View) -> str:
    while True:
        token_id = uuid_text(view.rng.randbytes(16))
        if not token_id.startswith("-") and token_id not in view.image.delegation_tokens:
            return token_id
