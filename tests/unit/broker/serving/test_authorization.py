from __future__ import annotations

import logging

import pytest

from ottla.broker.access import EVERYTHING
from ottla.broker.audit import AuditEvent
from ottla.broker.caller import Caller, Client
from ottla.broker.metadata.feed import Feed
from ottla.broker.serving.authorization import Authorization
from ottla.config.implemented import STANDARD_AUTHORIZER
from ottla.security.principal import Principal
from ottla.wire.acls import AclOperation, AclResource, PatternType, Permission
from ottla.wire.messages.records.access_control_entry_record import AccessControlEntryRecord
from ottla.wire.messages.records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from tests.unit.broker.rooms import Ground

ALICE = Principal("User", "alice")
READ, TOPIC = AclOperation.READ, AclResource.TOPIC


def allow(number: int, name: str) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=number.to_bytes(16, "big"),
        resource_type=TOPIC,
        resource_name=name,
        pattern_type=PatternType.LITERAL,
        principal="User:alice",
        host="*",
        operation=READ,
        permission_type=Permission.ALLOW,
    )


def secured() -> tuple[Ground, Authorization]:
    ground = Ground(authorizer_class_name=STANDARD_AUTHORIZER, super_users="User:admin")
    return ground, Authorization(ground)


def test_a_node_without_an_authorizer_allows_everything() -> None:
    authorization = Authorization(Ground())
    assert authorization.authorizer is None
    authorization.use_image()
    assert authorization.access(ALICE, "10.0.0.1").is_allowed(READ, TOPIC, "orders")


def test_acls_of_the_image_are_in_force_and_changes_follow_in_every_state_of_the_feed() -> None:
    ground, authorization = secured()
    feed = Feed(ground)
    forgotten: list[bool] = []
    access = authorization.access(ALICE, "10.0.0.1")

    def follow(changes: object) -> None:
        if authorization.image_changed(changes):  # type: ignore[arg-type]
            access.forget()
            forgotten.append(True)

    feed.on_change = follow
    feed.committed([allow(1, "orders")], 1)  # loading: the authorizer does not have ACLs yet
    assert not forgotten and not access.is_allowed(READ, TOPIC, "orders")
    feed.reconcile()
    authorization.use_image()
    access.forget()
    assert access.is_allowed(READ, TOPIC, "orders")
    feed.committed([allow(2, "payments")], 2)  # reconciling: rooms wait, ACLs do not
    assert access.is_allowed(READ, TOPIC, "payments")
    feed.go_live(())
    feed.committed([RemoveAccessControlEntryRecord(id=allow(1, "").id)], 3)
    assert not access.is_allowed(READ, TOPIC, "orders")
    feed.snapshot([allow(3, "orders")], 4)
    assert access.is_allowed(READ, TOPIC, "orders") and not access.is_allowed(READ, TOPIC, "payments")
    assert len(forgotten) == 3


def test_a_denial_is_logged_and_audited_once_and_a_filtered_list_is_not(caplog: pytest.LogCaptureFixture) -> None:
    ground, authorization = secured()
    authorization.use_image()
    events: list[AuditEvent] = []
    ground.audit.sink = events.append
    client = Client("10.0.0.1", 5, "INSIDE", "broker", access=authorization.access(ALICE, "10.0.0.1", "INSIDE"))
    caller = Caller("app", client, 1, 17)
    with caplog.at_level(logging.INFO, "ottla.authorizer"):
        assert not caller.is_visible(READ, TOPIC, "orders")
        assert not caplog.records and not events
        for _ in range(3):
            assert not caller.is_allowed(READ, TOPIC, "orders")
    assert [record.getMessage() for record in caplog.records] == [
        "Principal = User:alice is Denied operation = READ from host = 10.0.0.1 on resource = Topic:LITERAL:orders "
        "for request = Fetch based on rule DefaultDeny"
    ]
    assert len(events) == 1 and authorization.denied_count == 1
    assert (events[0].kind, events[0].principal, events[0].listener) == ("denied", "User:alice", "INSIDE")
    assert (events[0].resource, events[0].details) == ("Topic:orders", {"api": "Fetch"})


def test_what_is_allowed_is_logged_at_debug_only(caplog: pytest.LogCaptureFixture) -> None:
    _, authorization = secured()
    authorization.use_image()
    with caplog.at_level(logging.INFO, "ottla.authorizer"):
        assert authorization.access(Principal("User", "admin"), "10.0.0.1").is_allowed(READ, TOPIC, "orders")
    assert not caplog.records
    with caplog.at_level(logging.DEBUG, "ottla.authorizer"):
        access = authorization.access(Principal("User", "admin"), "10.0.0.1")
        assert access.is_allowed(READ, AclResource.TRANSACTIONAL_ID, "t1")
    assert "Allowed operation = READ" in caplog.text and "TransactionalId:LITERAL:t1" in caplog.text
    assert "based on rule SuperUser" in caplog.text


def test_answers_for_any_resource_are_kept_until_acls_change() -> None:
    ground, authorization = secured()
    authorization.use_image()
    access = authorization.access(ALICE, "10.0.0.1")
    assert not access.is_allowed_on_any(READ, TOPIC)
    assert authorization.image_changed(ground.image.apply([allow(1, "orders")]))
    assert not access.is_allowed_on_any(READ, TOPIC)
    access.forget()
    assert access.is_allowed_on_any(READ, TOPIC)
    assert EVERYTHING.is_allowed_on_any(READ, TOPIC)
