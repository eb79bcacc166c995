"""ACLs and delegation tokens on a server without security: byte for byte what Apache Kafka 4.3.1 answered."""

from __future__ import annotations

from contextlib import closing

import pytest

from tests.interop import requests
from tests.interop.servers import API_VERSIONS_V0, Server, ask
from tests.interop.toolbox import Toolbox

SECURITY_DISABLED = 54
ASKED = {
    "resource_type_filter": 2,
    "resource_name_filter": "t",
    "pattern_type_filter": 3,
    "principal_filter": None,
    "host_filter": None,
    "operation": 2,
    "permission_type": 3,
    "resource_type": 2,
    "resource_name": "t",
    "resource_pattern_type": 3,
    "principal": "User:a",
    "host": "*",
}
RECORDED = """
29 1 00000000003600294e6f20417574686f72697a657220697320636f6e66696775726564206f6e207468652062726f6b657200000000
29 2 000000000000362a4e6f20417574686f72697a657220697320636f6e66696775726564206f6e207468652062726f6b65720100
29 3 000000000000362a4e6f20417574686f72697a657220697320636f6e66696775726564206f6e207468652062726f6b65720100
30 1 00000000000000010036001c4e6f20417574686f72697a657220697320636f6e666967757265642e
30 2 00000000000200361d4e6f20417574686f72697a657220697320636f6e666967757265642e0000
30 3 00000000000200361d4e6f20417574686f72697a657220697320636f6e666967757265642e0000
31 1 00000000000000010036001c4e6f20417574686f72697a657220697320636f6e666967757265642e00000000
31 2 00000000000200361d4e6f20417574686f72697a657220697320636f6e666967757265642e010000
31 3 00000000000200361d4e6f20417574686f72697a657220697320636f6e666967757265642e010000
38 1 00400004557365720009414e4f4e594d4f5553ffffffffffffffffffffffffffffffffffffffffffffffff00000000000000000000
38 2 00004005557365720a414e4f4e594d4f5553ffffffffffffffffffffffffffffffffffffffffffffffff01010000000000
38 3 0000400278027805557365720a414e4f4e594d4f5553ffffffffffffffffffffffffffffffffffffffffffffffff01010000000000
39 1 0040ffffffffffffffff00000000
39 2 000040ffffffffffffffff0000000000
40 1 0040ffffffffffffffff00000000
40 2 000040ffffffffffffffff0000000000
41 1 00400000000000000000
41 2 000040010000000000
41 3 000040010000000000
"""
"""API key, version, and the answer after its correlation id."""
KAFKAS = {(int(key), int(version)): answer for key, version, answer in map(str.split, RECORDED.strip().splitlines())}


@pytest.mark.parametrize(("api_key", "version"), KAFKAS)
def test_the_answer_is_kafkas(broker: Server, api_key: int, version: int) -> None:
    with broker.connect() as connection:
        received = ask(connection, requests.frame(requests.request(api_key, version, ASKED)))
    assert received[4:].hex() == KAFKAS[api_key, version]


def test_they_are_offered_in_kafkas_versions(broker: Server) -> None:
    with broker.connect() as connection:
        offered = requests.advertised(ask(connection, API_VERSIONS_V0))
    for api_key in sorted({api_key for api_key, _ in KAFKAS}):
        assert [(api_key, version) for version in offered[api_key]] == [one for one in KAFKAS if one[0] == api_key]


def test_nothing_asked_is_nothing_refused(broker: Server) -> None:
    with broker.connect() as connection:
        created = requests.answer(30, 3, ask(connection, requests.frame(requests.request(30, 3, {"creations": ()}))))
        deleted = requests.answer(31, 3, ask(connection, requests.frame(requests.request(31, 3, {"filters": ()}))))
    assert created.results == () and deleted.filter_results == ()


def test_kafka_python_hears_that_security_is_off(broker: Server) -> None:
    admins = pytest.importorskip("kafka.admin", reason="kafka-python is not installed")
    failures = pytest.importorskip("kafka.errors")
    every = admins.ACLFilter(
        principal=None,
        host="*",
        operation=admins.ACLOperation.ANY,
        permission_type=admins.ACLPermissionType.ANY,
        resource_pattern=admins.ResourcePatternFilter(admins.ResourceType.ANY, None, admins.ACLResourcePatternType.ANY),
    )
    with closing(admins.KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
        try:
            _, error = admin.describe_acls(every)
        except failures.SecurityDisabledError as refused:
            error = type(refused)
    assert error.errno == SECURITY_DISABLED


def test_kafka_acls_says_what_it_says_of_kafka(broker: Server, tools: Toolbox) -> None:
    printed = tools.run("acls", "--bootstrap-server", broker.bootstrap, "--list")
    assert printed.code == 1
    assert "SecurityDisabledException: No Authorizer is configured on the broker" in printed.out + printed.err
