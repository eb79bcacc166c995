"""DescribeDelegationToken v1-v3: tokens that concern the sender, or that it may describe, with their secrets.

Answered from the image: a token is seen as soon as the broker has its record."""

from __future__ import annotations

from ottla.broker.apis.token_requests import may_ask_for_tokens
from ottla.broker.caller import Caller
from ottla.broker.ground import Ground
from ottla.broker.serving.api import Api, Need
from ottla.security.delegation_tokens import concerns, stored_principal, token_secret
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from ottla.wire.messages.records.delegation_token_record import DelegationTokenRecord

FIRST_VERSION_WITH_REQUESTER = 3


def describe_delegation_token(
    request: DescribeDelegationTokenRequest, ground: Ground, caller: Caller
) -> DescribeDelegationTokenResponse:
    secret_key = ground.config.delegation_token_secret_key
    if not may_ask_for_tokens(ground, caller):
        return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if not secret_key:
        return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    owners = None
    if request.owners is not None:
        owners = {f"{owner.principal_type}:{owner.principal_name}" for owner in request.owners}
    return DescribeDelegationTokenResponse(
        tokens=[
            _described(token, secret_key, has_requester=caller.api_version >= FIRST_VERSION_WITH_REQUESTER)
            for token in ground.image.delegation_tokens.values()
            if owners is None or token.owner in owners or not owners.isdisjoint(token.renewers)
            if _may_describe(token, caller)
        ]
    )


def _may_describe(token: DelegationTokenRecord, caller: Caller) -> bool:
    return (
        concerns(token, caller.principal)
        or caller.is_allowed(AclOperation.DESCRIBE, AclResource.DELEGATION_TOKEN, token.token_id)
        or caller.is_allowed(AclOperation.DESCRIBE_TOKENS, AclResource.USER, token.owner)
    )


def _described(token: DelegationTokenRecord, secret_key: str, *, has_requester: bool) -> DescribedDelegationToken:
    owner, requester = stored_principal(token.owner), stored_principal(token.requester)
    described = DescribedDelegationToken(
        principal_type=owner.type,
        principal_name=owner.name,
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiration_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token.token_id,
        hmac=token_secret(token.token_id, secret_key),
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=renewer.type, principal_name=renewer.name)
            for renewer in map(stored_principal, token.renewers)
        ],
    )
    if has_requester:
        described.token_requester_principal_type = requester.type
        described.token_requester_principal_name = requester.name
    return described


api = Api(
    key=41,
    handler=describe_delegation_token,
    needs=(
        Need(AclOperation.DESCRIBE, AclResource.DELEGATION_TOKEN),
        Need(AclOperation.DESCRIBE_TOKENS, AclResource.USER),
    ),
)
