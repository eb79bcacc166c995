"""Every public method of the clients has a docstring with an example, and can be found."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys

import pytest

import ottla.client
from ottla.client import Admin, Consumer, Delivery, Producer, ShareConsumer, blocking
from ottla.client.dead_letters import DeadLetters
from ottla.client.retry_topics import RetryTopics
from tests.client_examples import example_of, methods_of

ASYNC = [(cls, name) for cls in (Producer, Consumer, ShareConsumer, Admin, Delivery) for name in methods_of(cls)]
BLOCKING = [
    (cls, name)
    for cls in (
        blocking.Producer,
        blocking.Consumer,
        blocking.ShareConsumer,
        blocking.Admin,
        blocking.BlockingDelivery,
    )
    for name in methods_of(cls)
]


@pytest.mark.parametrize(("cls", "name"), ASYNC, ids=lambda one: getattr(one, "__name__", one))
def test_a_method_has_an_example(cls: type, name: str) -> None:
    example = example_of(cls, name)
    compile(example, f"{cls.__name__}.{name}", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    assert name in example


@pytest.mark.parametrize(("cls", "name"), BLOCKING, ids=lambda one: getattr(one, "__name__", one))
def test_a_blocking_method_has_an_example_without_await(cls: type, name: str) -> None:
    example = example_of(cls, name)
    compile(example, f"{cls.__name__}.{name}", "exec")
    assert name in example
    assert "await" not in (inspect.getdoc(getattr(cls, name)) or "").partition("Example:")[2]


def test_there_are_many() -> None:
    assert len(ASYNC) > 90
    assert len(BLOCKING) > 80


def test_classes_are_listed_before_they_are_imported() -> None:
    for name in ottla.client.__all__:
        assert name in dir(ottla.client)
        assert getattr(ottla.client, name).__doc__
    assert {"Admin", "Consumer", "Producer"} <= set(dir(ottla.client.blocking))
    script = "import ottla.client; print('Producer' in dir(ottla.client), ottla.client.blocking.Producer.__name__)"
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert told.stdout == "True Producer\n"


def test_other_public_classes_are_described() -> None:
    for cls in (DeadLetters, RetryTopics):
        assert cls.__doc__
