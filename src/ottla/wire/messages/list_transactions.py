"""ListTransactions (api key 66): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, int64, since, string


class ListTransactionsRequest(Message, api_key=66, versions=(0, 2), flexible=0):
    state_filters: array[string] = []
    producer_id_filters: array[int64] = []
    duration_filter: int64 = since(1, default=-1)
    transactional_id_pattern: string | None = since(2, default=None)


class TransactionState(Struct):
    transactional_id: string = ""
    producer_id: int64 = 0
    transaction_state: string = ""


class ListTransactionsResponse(Message, api_key=66, versions=(0, 2), flexible=0):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    unknown_state_filters: array[string] = []
    transaction_states: array[TransactionState] = []
