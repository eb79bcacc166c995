"""Why a pipeline ended: finds the cause in messages of Spark, Java or a worker, its kind, and the advice for it."""

from __future__ import annotations

import re

from ottla.spark.pipelines.definition import BadData, FlowFailed, PipelineError, Unavailable
from ottla.spark.pipelines.errors import RuleBroken

SLOW_START = "Python worker failed to connect back"
RAISED = "[USER_RAISED_EXCEPTION]"
"""Precedes the message of a broken rule. Without the brackets it is part of every plan with such a rule."""
BROKEN = ": a row fails "
"""Part of the message of a rule with the action `fail`."""
SLOW_START_ADVICE = (
    "Spark gives a Python process ten seconds to start, and this machine was too busy for that. Nothing is lost: run "
    "the pipeline again when there is less to do, or with fewer tasks at a time (--master 'local[2]')"
)
_PYTHON_ERROR = re.compile(
    r"^((?:[A-Za-z_]\w*\.)*[A-Za-z_]*(?:Error|Exception|Lost|Fault|Failed|Interrupt|Unavailable|BadData)"
    r"|ottla\.(?:\w+\.)*[A-Z]\w*): (.+)$"
)
_OWN_KINDS: dict[str, type[PipelineError]] = {
    f"{kind.__module__}.{kind.__name__}": kind for kind in (PipelineError, Unavailable, BadData, FlowFailed)
}
_OWN = re.compile("|".join(rf"(?<![\w.]){re.escape(name)}(?=: )" for name in _OWN_KINDS))
_AWAY = re.compile(
    r"java\.net\.(?:Connect|UnknownHost|NoRouteToHost|SocketTimeout|Socket)Exception"
    r"|SQL(?:Transient|NonTransient)ConnectionException|SQLRecoverableException|CommunicationsException"
    r"|\b(?:NoBrokerReached|NetworkError|RequestTimedOut|RegistryUnreachable|HttpUnavailable)\b"
    r"|\b(?:Connection|ConnectionRefused|ConnectionReset|ConnectionAborted|BrokenPipe|Timeout|ConnectTimeout)Error\b"
    r"|NETWORK_EXCEPTION|REQUEST_TIMED_OUT|COORDINATOR_NOT_AVAILABLE|NOT_ENOUGH_REPLICAS|LEADER_NOT_AVAILABLE"
    r"|Connection to \S+ refused|The connection attempt failed|[Cc]onnection refused|Name or service not known"
    r"|Python worker exited unexpectedly|ExecutorLostFailure"
    # databases that start, stop or are full, connections that they lost, transactions that they gave up
    r"|the database system is (?:starting up|shutting down|in recovery mode|not (?:yet )?accepting connections)"
    r"|terminating connection (?:due to|because of)|too many clients already|connection slots are reserved"
    r"|I/O error occurred while sending to the backend|This connection has been closed|[Tt]oo many connections"
    r"|[Ss]erver shutdown in progress|deadlock detected|Deadlock found|could not serialize access|Lock wait timeout"
    r"|SQLITE_BUSY|SQLITE_LOCKED"
    r"|error sending request|Unable to execute HTTP request|Could not connect to the endpoint|Max retries exceeded"
    # stores of objects, as Delta's and Iceberg's libraries name them
    r"|non-2xx status code: (?:429|5\d\d)|\(HTTP status (?:429|5\d\d)\)"
    r"|AWS Error (?:NETWORK_CONNECTION|SLOW_DOWN|SERVICE_UNAVAILABLE|REQUEST_TIMEOUT|INTERNAL_FAILURE|THROTTLING)"
)
_STATE_CHANGED = re.compile(
    r"STATE_STORE_\w*SCHEMA\w*|STATEFUL_OPERATOR_NOT_MATCH\w*|sources in the checkpoint offsets"
)
_PY4J = "An error occurred while calling "
_TREE = re.compile(r"\s*\n\s*(?:\x1b?\[\d+m)?↳(?:\x1b?\[\d+m)?\s*")
"""Between the parts of an error of Delta's library, which writes them one below the other."""
_DATA = re.compile(r"\b(?:DataLost|TableError)\b")


def cause_of(text: str) -> str:
    """The cause in a message of Spark: the last Python error, the message of a broken rule, or Spark's own first
    sentence."""
    lines = [line.strip() for line in _TREE.sub(": ", text).splitlines() if line.strip()]
    for line in lines:
        if RAISED in line:
            return line.split(RAISED, 1)[-1].strip().removesuffix("SQLSTATE: P0001").strip()
    found = [match for match in map(_PYTHON_ERROR.match, lines) if match is not None]
    own = [match for match in found if not match.group(1).startswith(("org.", "java.", "pyspark."))]
    if own:
        name, said = own[-1].groups()
        return said if name in _OWN_KINDS else f"{name.rpartition('.')[2]}: {said}"
    if len(lines) > 1 and lines[0].startswith(_PY4J):
        return lines[1].removeprefix(": ")
    return lines[0] if lines else "no reason was given"


def failure(
    what: str, text: str, *, cause: str | None = None, default: type[PipelineError] = FlowFailed
) -> PipelineError:
    """The error for a failure, of the kind that its messages show; `default` if they show none."""
    shown = f"{what}: {cause or cause_of(text)}" if what else cause or cause_of(text)
    if RAISED in text:
        return RuleBroken(shown) if BROKEN in shown else BadData(shown)
    if SLOW_START in text:
        return Unavailable(f"{shown.rstrip('.')}. {SLOW_START_ADVICE}")
    raised = _OWN.search(text)  # by a flow, in a thread of Spark's
    if raised is not None:
        return _OWN_KINDS[raised.group()](shown)
    if _AWAY.search(_TREE.sub(": ", text)):
        return Unavailable(shown)
    return BadData(shown) if _DATA.search(text) else default(shown)


def flow_failure(flow: str, text: str, checkpoint: str) -> PipelineError:
    """The error for a query that ended. If its state no longer fits its SQL, the message is advice instead of Spark's
    text."""
    changed = _STATE_CHANGED.search(text)
    if changed is None:
        return failure(f"flow {flow} failed", text)
    return PipelineError(
        f"flow {flow} failed: its SQL has changed (what it groups by, joins, deduplicates or reads), and what it has "
        f"counted so far, in {checkpoint}, is of the old SQL ({changed.group()}). Put the old SQL back; or give the "
        "flow a new name; or remove that folder while the pipeline does not run. With a new name or without the folder "
        "the flow begins anew: it reads its sources from their 'starting' on, and its target gets those rows again"
    )
