"""Black-box tests: programs of other projects, against a real server process.

OTTLA_TEST_KAFKA=1 runs the same tests on Apache Kafka 4.3.1, which proves that a failing test means a wrong Ottla and
not a wrong test. A tool that is absent skips its tests by name. Tests marked `long` (they download and build clients in
other languages) run when OTTLA_INTEROP_ALL=1, which `make interop` sets.
"""

from __future__ import annotations

import gc
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.interop.servers import Kafka, Ottla, Server, kafka_anchor
from tests.interop.toolbox import Toolbox

ON_KAFKA = os.environ.get("OTTLA_TEST_KAFKA") == "1"
HERE = Path(__file__).parent

StartServer = Callable[..., Server]
CARELESS = ("aiokafka", "kafka_python", "sasl_clients")
"""Clients that leave sockets behind."""
_topic_numbers = itertools.count()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.interop)


@pytest.fixture(scope="module", autouse=True)
def rubbish_goes_with_its_module(request: pytest.FixtureRequest) -> Iterator[None]:
    """What careless clients leave is collected while their module's filter of warnings holds: found later, by chance,
    it would be the error of another test."""
    yield
    if str(request.node.name).removesuffix(".py").endswith(CARELESS):
        gc.collect()


def a_sample(cases: Iterable[tuple[object, ...]], every: int) -> list[object]:
    """Cases for `parametrize`: those that run in `make test`, and the others, which `make interop` runs as well."""
    more = pytest.mark.skipif(
        os.environ.get("OTTLA_INTEROP_ALL") != "1", reason="more of the same takes long: only with OTTLA_INTEROP_ALL=1"
    )
    return [pytest.param(*case, marks=more if index % every else ()) for index, case in enumerate(cases)]


def new_server(data: Path, overrides: Sequence[str] = ()) -> Server:
    if ON_KAFKA:
        if kafka_anchor() is None:
            pytest.skip("Apache Kafka 4.3.1: no anchor script or no java")
        return Kafka(data, overrides)
    return Ottla(data, overrides)


def shared_server(folder: Path, overrides: Sequence[str]) -> Iterator[Server]:
    """A server for many tests, which must outlive them."""
    server = new_server(folder / "data", overrides)
    server.start()
    yield server
    still_runs = server.is_running()
    server.stop()
    assert still_runs, f"{server.name} died during the tests\n{server.output()}"


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server that most tests share; each test uses topics of its own."""
    yield from shared_server(tmp_path_factory.mktemp("broker"), ["group.initial.rebalance.delay.ms=0"])


GROUP_SETTINGS = (
    "group.initial.rebalance.delay.ms=0",
    "group.min.session.timeout.ms=1000",
    "group.max.size=5",
    "group.consumer.max.size=5",
    "group.consumer.min.heartbeat.interval.ms=200",
    "group.consumer.heartbeat.interval.ms=300",
    "group.consumer.min.session.timeout.ms=1000",
    "group.consumer.session.timeout.ms=30000",
    "group.consumer.assignment.interval.ms=0",
    "group.streams.max.size=5",
    "group.streams.min.heartbeat.interval.ms=200",
    "group.streams.heartbeat.interval.ms=300",
    "group.streams.initial.rebalance.delay.ms=0",
    "group.streams.assignment.interval.ms=0",
    "offsets.topic.num.partitions=4",
)


@pytest.fixture(scope="session")
def group_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server that tests of groups share: it allows short timeouts; each test uses groups of its own."""
    yield from shared_server(tmp_path_factory.mktemp("groups"), GROUP_SETTINGS)


TRANSACTION_SETTINGS = (
    "group.initial.rebalance.delay.ms=0",
    "offsets.topic.num.partitions=4",
    "transaction.state.log.num.partitions=4",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=100",
    "unstable.api.versions.enable=true",  # InitProducerId v6, two-phase commit
)


@pytest.fixture(scope="session")
def transaction_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server that tests of transactions share: it soon aborts what takes too long."""
    yield from shared_server(tmp_path_factory.mktemp("transactions"), TRANSACTION_SETTINGS)


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[StartServer]:
    """Start servers of one's own: start_server("key=value", ...), also on a given data folder."""
    servers: list[Server] = []

    def start(
        *overrides: str, data: Path | None = None, on_kafka: bool | None = None, port: int | None = None
    ) -> Server:
        folder = data or tmp_path / f"data-{len(servers)}"
        if on_kafka is None:
            server = new_server(folder, overrides)
        elif on_kafka:
            if kafka_anchor() is None:
                pytest.skip("Apache Kafka 4.3.1: no anchor script or no java")
            server = Kafka(folder, overrides, port)
        else:
            server = Ottla(folder, overrides, port)
        servers.append(server)
        server.start()
        return server

    yield start
    for server in servers:
        server.kill()


@pytest.fixture(scope="session")
def tools() -> Iterator[Toolbox]:
    """Kafka's own command line tools."""
    if kafka_anchor() is None:
        pytest.skip("Kafka's command line tools: no anchor script or no java")
    toolbox = Toolbox()
    yield toolbox
    toolbox.close()


@pytest.fixture
def topic() -> str:
    """A topic name no other test uses."""
    return f"topic-{next(_topic_numbers)}-{os.getpid()}"
