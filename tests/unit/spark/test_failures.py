"""The reason of a failure, out of what Spark says about it."""

from __future__ import annotations

import pytest

from ottla.spark.pipelines.errors import FlowFailed, PipelineError, Unavailable
from ottla.spark.pipelines.failures import failure

IN_A_BATCH = """\
[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the user provided function in foreach batch sink. Reason: \
An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "/usr/lib/python3/site-packages/py4j/clientserver.py", line 644, in _call_proxy
    self._write(rows)
{}
"""


@pytest.mark.parametrize(
    ("said", "reason", "kind"),
    [
        (
            "ottla.client.errors.NoBrokerReached: NETWORK_EXCEPTION: no broker of 127.0.0.1:9092 answers",
            "NoBrokerReached: NETWORK_EXCEPTION: no broker of 127.0.0.1:9092 answers",
            Unavailable,
        ),
        (
            "ottla.client.errors.RequestTimedOut: REQUEST_TIMED_OUT: orders-0 was not written",
            "RequestTimedOut: REQUEST_TIMED_OUT: orders-0 was not written",
            Unavailable,
        ),
        (
            "ottla.converters.errors.RegistryUnreachable: http://registry:8081 does not answer",
            "RegistryUnreachable: http://registry:8081 does not answer",
            Unavailable,
        ),
        ("ottla.client.errors.ProducerFenced: by a newer run", "ProducerFenced: by a newer run", FlowFailed),
    ],
)
def test_an_error_of_our_own_is_the_reason_whatever_its_name(said: str, reason: str, kind: type[PipelineError]) -> None:
    found = failure("flow sums failed", IN_A_BATCH.format(said))
    assert str(found) == f"flow sums failed: {reason}"
    assert type(found) is kind


GET = "Error performing GET http://store:9000/lake/_last_checkpoint in 227ms, after 2 retries"
SAID = "  - Server returned non-2xx status code"
KERNEL = "OSError: Kernel error -> Generic S3 error"
IN = "OSError: in bucket 'lake': AWS Error"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            f"{KERNEL}\n  \x1b[31m↳\x1b[0m {GET}{SAID}\n    \x1b[31m↳\x1b[0m 503 Service Unavailable\n",
            f"{KERNEL}: {GET}{SAID}: 503 Service Unavailable",
        ),
        (f"{IN} UNKNOWN (HTTP status 503) during HeadObject", f"{IN} UNKNOWN (HTTP status 503) during HeadObject"),
        (
            f"{IN} NETWORK_CONNECTION during GetObject: curlCode: 7",
            f"{IN} NETWORK_CONNECTION during GetObject: curlCode: 7",
        ),
    ],
)
def test_a_store_that_fails_is_away(said: str, reason: str) -> None:
    found = failure("flow lake failed", f"Traceback (most recent call last):\n{said}")
    assert type(found) is Unavailable
    assert str(found) == f"flow lake failed: {reason}"


def test_a_store_that_refuses_is_not_away() -> None:
    said = "OSError: in bucket 'lake': AWS Error ACCESS_DENIED (HTTP status 403) during HeadObject operation"
    assert type(failure("flow lake failed", said)) is FlowFailed
