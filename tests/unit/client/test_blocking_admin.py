"""The blocking admin client leaves nothing out."""

from __future__ import annotations

from inspect import iscoroutinefunction

from ottla.client.admin import Admin
from ottla.client.blocking import Admin as BlockingAdmin


def test_the_blocking_admin_has_every_call() -> None:
    calls = [name for name in dir(Admin) if not name.startswith("_") and iscoroutinefunction(getattr(Admin, name))]
    assert len(calls) > 40
    assert [name for name in calls if not callable(getattr(BlockingAdmin, name, None))] == []
