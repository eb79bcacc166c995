"""Every path below a cluster, and what answers it."""

from __future__ import annotations

from ottla.console import (
    access,
    brokers,
    groups,
    jobs,
    letters,
    messages,
    metrics,
    overview,
    pipelines,
    produce,
    schemas,
    sql,
    topics,
    transactions,
)
from ottla.console.call import Route, Routes


def _get(path: str, handler: object) -> Route:
    return Route("GET", path, handler)  # type: ignore[arg-type]


def _ask(path: str, handler: object) -> Route:
    """A question with a body."""
    return Route("POST", path, handler)  # type: ignore[arg-type]


def _change(path: str, handler: object) -> Route:
    return Route("POST", path, handler, is_change=True)  # type: ignore[arg-type]


ROUTES = Routes(
    [
        _ask("search", messages.search),
        _ask("expression", messages.check_expression),
        _get("topics/{topic}/records/{partition}/{offset}", messages.record),
        _get("topics/{topic}/records/{partition}/{offset}/bytes", messages.record_bytes),
        _get("topics", topics.topics),
        _change("topics", topics.create),
        _get("topic-settings", topics.new_topic_settings),
        _get("topics/{topic}", topics.topic),
        _get("topics/{topic}/settings", topics.settings),
        _change("topics/{topic}/settings", topics.change_settings),
        _change("topics/{topic}/partitions", topics.add_partitions),
        _change("topics/{topic}/clone", topics.clone),
        _change("topics/{topic}/delete-records", topics.delete_records),
        _change("topics/{topic}/delete", topics.delete),
        _get("groups", groups.groups),
        _get("groups/{group}", groups.group),
        _change("groups/{group}/reset", groups.reset),
        _change("groups/{group}/delete", groups.delete),
        _change("groups/{group}/delete-offsets", groups.delete_offsets),
        _change("groups/{group}/remove-members", groups.remove_members),
        _change("topics/{topic}/produce", produce.produce),
        _change("topics/{topic}/records/{partition}/{offset}/resend", produce.resend),
        _change("topics/{topic}/copy", produce.copy),
        _get("dead-letters", letters.dead_letters),
        _ask("topics/{topic}/letters", letters.letters),
        _change("topics/{topic}/redrive", letters.redrive),
        _get("overview", overview.overview),
        _get("brokers", brokers.brokers),
        _get("brokers/{broker}/settings", brokers.settings),
        _change("brokers/{broker}/settings", brokers.change_settings),
        _change("brokers/{broker}/drain", brokers.drain),
        _get("reassignments", brokers.reassignments),
        _change("reassignments/cancel", brokers.cancel_reassignments),
        _change("rebalance", brokers.rebalance),
        _change("elect-leaders", brokers.elect_leaders),
        _get("schemas", schemas.schemas),
        _get("schemas/{subject}", schemas.schema),
        _change("schemas/{subject}", schemas.register),
        _ask("schemas/{subject}/check", schemas.check),
        _change("schemas/{subject}/compatibility", schemas.change_compatibility),
        _change("schemas/{subject}/delete", schemas.delete),
        _get("pipelines", pipelines.pipelines),
        _get("pipelines/{name}/log", pipelines.log),
        _change("pipelines/{name}/start", pipelines.start),
        _change("pipelines/{name}/stop", pipelines.stop),
        _get("users", access.users),
        _change("users", access.create_user),
        _change("users/{user}/delete", access.delete_user),
        _get("acls", access.acls),
        _change("acls", access.create_acls),
        _change("acls/delete", access.delete_acls),
        _get("access", access.access),
        _ask("explain", access.explain),
        _get("quotas", access.quotas),
        _change("quotas", access.change_quotas),
        _get("audit", metrics.audit),
        _get("metrics", metrics.metrics),
        _change("sql", sql.sql),
        _get("transactions", transactions.transactions),
        _change("transactions/end", transactions.end),
        _change("transactions/end-hanging", transactions.end_hanging),
        _get("jobs", jobs.jobs),
        _get("jobs/{job}", jobs.job),
        _get("jobs/{job}/result", jobs.result),
        _change("jobs/{job}/cancel", jobs.cancel),
    ]
)
