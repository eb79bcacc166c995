"""SCRAM credentials of users (KIP-554). What is stored lets a broker check a password; it is not the password."""

from __future__ import annotations

from ottla.cluster.features import METADATA_VERSION, supports_scram
from ottla.controller.view import View
from ottla.machine import Decision
from ottla.security.scram_keys import MAX_ITERATIONS, MIN_ITERATIONS, scram_keys
from ottla.wire import Message
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.wire.messages.records.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from ottla.wire.messages.records.user_scram_credential_record import UserScramCredentialRecord

MECHANISMS = {1: "sha256", 2: "sha512"}
Change = ScramCredentialDeletion | ScramCredentialUpsertion


def alter_user_scram_credentials(
    view: View, request: AlterUserScramCredentialsRequest
) -> Decision[AlterUserScramCredentialsResponse]:
    """Set and remove credentials. A user that is named twice is refused with all its changes."""
    records: dict[str, Message] = {}
    errors: dict[str, KafkaError] = {}
    changes: list[Change] = [*request.deletions, *request.upsertions]
    for change in changes:
        name = change.name
        if name in errors:
            continue
        try:
            if records.pop(name, None) is not None:
                raise KafkaError(
                    ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
                )
            _check(view, change)
            records[name] = _removed(view, change) if isinstance(change, ScramCredentialDeletion) else _set(change)
        except KafkaError as error:
            errors[name] = error
    response = AlterUserScramCredentialsResponse(
        results=[
            *(AlterUserScramCredentialsResult(user=name, error_message=None) for name in records),
            *(
                AlterUserScramCredentialsResult(user=name, error_code=error.code, error_message=error.message)
                for name, error in errors.items()
            ),
        ]
    )
    return Decision(list(records.values()), response)


def _check(view: View, change: Change) -> None:
    if not supports_scram(view.image.features.get(METADATA_VERSION, 0)):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "The current metadata.version does not support SCRAM")
    if not change.name:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if change.mechanism not in MECHANISMS:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")


def _removed(view: View, deletion: ScramCredentialDeletion) -> RemoveUserScramCredentialRecord:
    if (deletion.name, deletion.mechanism) not in view.image.scram:
        raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
    return RemoveUserScramCredentialRecord(name=deletion.name, mechanism=deletion.mechanism)


def _set(upsertion: ScramCredentialUpsertion) -> UserScramCredentialRecord:
    if upsertion.iterations < MIN_ITERATIONS:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if upsertion.iterations > MAX_ITERATIONS:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if not upsertion.salted_password:
        # A client could never log in with it. Kafka fails here with UNKNOWN_SERVER_ERROR.
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "The salted password must not be empty")
    keys = scram_keys(MECHANISMS[upsertion.mechanism], upsertion.salted_password)
    return UserScramCredentialRecord(
        name=upsertion.name,
        mechanism=upsertion.mechanism,
        salt=bytes(upsertion.salt),
        stored_key=keys.stored_key,
        server_key=keys.server_key,
        iterations=upsertion.iterations,
    )
