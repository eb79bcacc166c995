"""Brokers as the console shows them, without a cluster."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from ottla.cli.doctor import check_quorum
from ottla.client.admin import ClusterDescription
from ottla.client.errors import UnsupportedByBroker, error_of
from ottla.client.metadata import Broker
from ottla.console.brokers import cluster_of
from ottla.console.produce import why_not_written
from ottla.console.sql import why_failed
from ottla.wire import UnsupportedVersion
from ottla.wire.errors import ErrorCode

LIVE, FENCED = Broker(1, "a", 9092, None), Broker(2, "b", 9092, None)


class Admin:
    """A cluster with a fenced broker, whose brokers may be too old to tell."""

    def __init__(self, trouble: Exception | None = None) -> None:
        self.trouble = trouble

    async def describe_cluster(self, *, include_fenced: bool = False) -> ClusterDescription:
        if include_fenced and self.trouble is not None:
            raise self.trouble
        brokers, fenced = ((LIVE, FENCED), (2,)) if include_fenced else ((LIVE,), ())
        return ClusterDescription("id", 1, brokers, fenced, frozenset())


@pytest.mark.parametrize(
    ("trouble", "expected"),
    [
        (None, ([1, 2], (2,))),
        (UnsupportedVersion("version 1 cannot carry include_fenced_brokers"), ([1], ())),
        (UnsupportedByBroker("DescribeCluster"), ([1], ())),
    ],
)
def test_a_fenced_broker_is_listed_if_the_cluster_can_tell(trouble: Exception | None, expected: Any) -> None:
    found = asyncio.run(cluster_of(cast("Any", Admin(trouble))))
    assert ([one.id for one in found.brokers], found.fenced_ids) == expected


def test_a_query_that_fails_says_why_and_not_what_it_did_before() -> None:
    assert why_failed("starting Spark ...\nottla sql: no column nope\n") == "no column nope"
    assert why_failed("ottla sql: a\n starting Spark ...") == "a\n starting Spark ..."


class Denied:
    """A cluster that tells this principal nothing of its quorum."""

    async def describe_quorum(self) -> None:
        raise error_of(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def test_a_quorum_that_may_not_be_looked_at_is_not_called_leaderless() -> None:
    findings, _ = asyncio.run(check_quorum(cast("Any", Denied())))
    assert [one.is_problem for one in findings] == [False]
    assert "not allowed" in findings[0].what


def test_a_write_without_any_write_acl_is_refused_for_its_topic() -> None:
    fault = why_not_written(error_of(ErrorCode.CLUSTER_AUTHORIZATION_FAILED), "orders")
    assert (fault.status, fault.code) == (403, "TOPIC_AUTHORIZATION_FAILED")
    assert "not allowed to write to orders" in fault.message
