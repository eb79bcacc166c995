"""ListTransactions v0-v2: the transactional ids that this broker coordinates, by state, producer, age and pattern."""

from __future__ import annotations

from ottla.broker.caller import Caller
from ottla.broker.coordinators.transactions import TransactionCoordinator
from ottla.broker.ground import Ground
from ottla.broker.serving.api import Api, Need
from ottla.groups.regex import check_regex, matching_topics
from ottla.transactions.listing import list_shard, unknown_states
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse, TransactionState


def list_transactions(
    request: ListTransactionsRequest, ground: Ground, transactions: TransactionCoordinator, caller: Caller
) -> ListTransactionsResponse:
    if not transactions.is_started:
        return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if transactions.is_loading:
        return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    pattern = request.transactional_id_pattern
    if pattern:
        try:
            check_regex(pattern)
        except KafkaError as error:
            return ListTransactionsResponse(error_code=error.code)
    timestamp = ground.clock()
    found: list[TransactionState] = []
    for hosted in transactions.active():
        assert hosted.machine is not None
        found += list_shard(hosted.machine, request, timestamp)
    if pattern:
        matching = set(matching_topics(pattern, [state.transactional_id for state in found]))
        found = [state for state in found if state.transactional_id in matching]
    found, _ = caller.split(
        AclOperation.DESCRIBE,
        AclResource.TRANSACTIONAL_ID,
        found,
        lambda state: state.transactional_id,
        is_logged=False,
    )
    return ListTransactionsResponse(unknown_state_filters=unknown_states(request), transaction_states=found)


api = Api(key=66, handler=list_transactions, needs=(Need(AclOperation.DESCRIBE, AclResource.TRANSACTIONAL_ID),))
