"""Delegation tokens (KIP-48): secrets that live for a while, with which others log in as their owner."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass, field

from ottla.client.admin.calls import AdminCalls
from ottla.client.errors import error_of
from ottla.security.principal import Principal, parse_principal
from ottla.wire.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ottla.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from ottla.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from ottla.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A token. A client logs in with it by SCRAM: user `token_id`, password `password`, and `tokenauth="true"` in
    `sasl.jaas.config`. Its repr leaves out the secret."""

    token_id: str
    hmac: bytes = field(repr=False)
    """The secret, which `renew_delegation_token` and `expire_delegation_token` take."""
    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...]
    issue_timestamp: int
    expiry_timestamp: int
    max_timestamp: int
    """Until when it can be renewed. All three are milliseconds since 1970."""

    @property
    def password(self) -> str:
        return b64encode(self.hmac).decode()


class TokenCalls(AdminCalls):
    async def create_delegation_token(
        self, *, owner: str | None = None, renewers: Iterable[str] = (), max_lifetime_ms: int = -1
    ) -> DelegationToken:
        """A new token for this client's principal, or for `owner` (`User:alice`), which needs CREATE_TOKENS on that
        user. `max_lifetime_ms` below 0: as long as the cluster allows.

        Example:

            token = await admin.create_delegation_token(renewers=["User:scheduler"])
            print(token.token_id, token.expiry_timestamp)
        """
        named = [parse_principal(renewer) for renewer in renewers]
        request = CreateDelegationTokenRequest(
            owner_principal_type=None,
            owner_principal_name=None,
            renewers=[CreatableRenewers(principal_type=one.type, principal_name=one.name) for one in named],
            max_lifetime_ms=max_lifetime_ms,
        )
        if owner is not None:
            wanted = parse_principal(owner)
            request.owner_principal_type, request.owner_principal_name = wanted.type, wanted.name

        async def ask() -> DelegationToken:
            response: CreateDelegationTokenResponse = await self._ask_any(request)
            if response.error_code:
                raise error_of(response.error_code)
            found = Principal(response.principal_type, response.principal_name)
            requester = Principal(response.token_requester_principal_type, response.token_requester_principal_name)
            return DelegationToken(
                response.token_id,
                bytes(response.hmac),
                found,
                requester if requester.name else found,
                tuple(named),
                response.issue_timestamp_ms,
                response.expiry_timestamp_ms,
                response.max_timestamp_ms,
            )

        return await self._one(ask)

    async def renew_delegation_token(self, hmac: bytes, *, period_ms: int = -1) -> int:
        """When the token expires now: `period_ms` from now (below 0: as long as the cluster allows), at most at its
        max timestamp. Its owner and its renewers may ask.

        Example:

            expiry_timestamp = await admin.renew_delegation_token(token.hmac)
        """

        async def ask() -> int:
            request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
            response: RenewDelegationTokenResponse = await self._ask_any(request)
            if response.error_code:
                raise error_of(response.error_code)
            return response.expiry_timestamp_ms

        return await self._one(ask)

    async def expire_delegation_token(self, hmac: bytes, *, period_ms: int = -1) -> int:
        """When the token expires now: `period_ms` from now; below 0 it is removed at once.

        Example:

            await admin.expire_delegation_token(token.hmac)
        """

        async def ask() -> int:
            request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
            response: ExpireDelegationTokenResponse = await self._ask_any(request)
            if response.error_code:
                raise error_of(response.error_code)
            return response.expiry_timestamp_ms

        return await self._one(ask)

    async def describe_delegation_token(self, owners: Iterable[str] | None = None) -> list[DelegationToken]:
        """The tokens that these principals own or may renew, or all that this client may see.

        Example:

            for token in await admin.describe_delegation_token(["User:alice"]):
                print(token.token_id, token.owner, token.expiry_timestamp)
        """
        wanted = None
        if owners is not None:
            named = [parse_principal(owner) for owner in owners]
            wanted = [DescribeDelegationTokenOwner(principal_type=one.type, principal_name=one.name) for one in named]

        async def ask() -> list[DelegationToken]:
            response: DescribeDelegationTokenResponse = await self._ask_any(
                DescribeDelegationTokenRequest(owners=wanted)
            )
            if response.error_code:
                raise error_of(response.error_code)
            found = []
            for one in response.tokens:
                owner = Principal(one.principal_type, one.principal_name)
                requester = Principal(one.token_requester_principal_type, one.token_requester_principal_name)
                found.append(
                    DelegationToken(
                        one.token_id,
                        bytes(one.hmac),
                        owner,
                        requester if requester.name else owner,
                        tuple(Principal(of.principal_type, of.principal_name) for of in one.renewers),
                        one.issue_timestamp,
                        one.expiry_timestamp,
                        one.max_timestamp,
                    )
                )
            return found

        return await self._one(ask)
