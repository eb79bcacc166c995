"""Brokers as the console shows them, without a cluster."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from ottla.client.admin import ClusterDescription
from ottla.client.errors import UnsupportedByBroker
from ottla.client.metadata import Broker
from ottla.console.brokers import cluster_of
from ottla.console.sql import why_failed
from ottla.wire import UnsupportedVersion

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
