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
