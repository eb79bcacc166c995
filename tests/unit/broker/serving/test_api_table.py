"""Which APIs a node serves, which rooms their handlers get, and which of them only the active controller answers."""

from __future__ import annotations

import ast
import inspect
import pkgutil
from importlib import import_module
from pathlib import Path

import pytest

from ottla.broker import apis
from ottla.broker.node import Node
from ottla.broker.peers.peers import Peers
from ottla.broker.serving.api import Api
from ottla.broker.serving.api_table import APIS_PACKAGE, ApiTable, module_name
from ottla.broker.serving.authorization import Authorization
from ottla.net import OsSockets, ReceiveBuffers
from ottla.wire.apis import APIS
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from ottla.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from tests.unit.broker.rooms import Ground, lead, make_logs, make_metadata, run_timed

SOURCES = Path(__file__).resolve().parents[4] / "src"
FORWARDED = {19, 20, 30, 31, 37, 43, 45, 46, 49, 51, 55, 57, 64, 80, 81, 94}
CHECKED_THEN_FORWARDED = {33, 38, 39, 40, 44}
FRAME_PARAMETERS = ["frame", "position", "version", "correlation_id"]
ANSWERED_FROM_FRAMES = {0, 1, 8}


def declared() -> dict[str, Api]:
    """By module, what the files of broker/apis declare."""
    names = [module.name for module in pkgutil.iter_modules(apis.__path__)]
    modules = {name: import_module(f"{APIS_PACKAGE}.{name}") for name in names}
    return {name: module.api for name, module in modules.items() if hasattr(module, "api")}


DECLARED = declared()


def test_every_file_with_an_api_is_served_under_the_key_of_kafkas_api_of_that_name() -> None:
    keys = {module_name(info.name): key for key, info in APIS.items()}
    assert {name: api.key for name, api in DECLARED.items()} == {name: keys[name] for name in DECLARED}
    assert {key: name for name, key in keys.items() if name in DECLARED} == ApiTable.keys


@pytest.mark.parametrize(
    ("api_name", "name"),
    [("CreateTopics", "create_topics"), ("Fetch", "fetch"), ("OffsetForLeaderEpoch", "offset_for_leader_epoch")],
)
def test_a_file_is_named_after_its_api(api_name: str, name: str) -> None:
    assert module_name(api_name) == name


def test_the_active_controller_answers_these_apis_and_no_others() -> None:
    assert {api.key for api in DECLARED.values() if api.is_forwarded} == FORWARDED
    assert {api.key for api in DECLARED.values() if api.is_checked_then_forwarded} == CHECKED_THEN_FORWARDED


def make_node(folder: Path) -> Node:
    """A node with its rooms, which does not listen."""
    node = Node(Ground(folder).config)
    ground = node.ground
    ground.open()
    node.peers = Peers(ground.loop, OsSockets(), ReceiveBuffers(), client_id="1")
    node.logs = make_logs(ground)
    node._make_rooms(node._open_data_folder(), ReceiveBuffers())
    return node


def test_every_handler_finds_its_rooms_in_a_node(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = make_node(tmp_path)
        table = node.serving.apis
        for key in ApiTable.keys:
            served = table.served(key)
            assert served is not None and served is table.served(key)
            assert [type(room) for room in served.frame_rooms] == list(served.api.frame_rooms)
            assert (served.handler is not served.direct_handler) is (key in FORWARDED), served.name
        node.logs.abandon()

    run_timed(scenario())


@pytest.mark.parametrize("name", DECLARED)
def test_a_handler_takes_the_request_its_rooms_and_the_caller(name: str) -> None:
    api = DECLARED[name]
    request, *rooms, caller = inspect.signature(api.handler).parameters.values()
    assert request.annotation == APIS[api.key].name + "Request"
    assert caller.annotation == "Caller"
    assert [room.annotation for room in rooms] == [room.__name__ for room in api.rooms]


def source_parameters(module: str, function: str) -> list[tuple[str, str]]:
    """Names and types of a function's parameters, as its source has them: compiled code does not tell."""
    tree = ast.parse((SOURCES / (module.replace(".", "/") + ".py")).read_text())
    (found,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function)
    return [(arg.arg, ast.unparse(arg.annotation)) for arg in found.args.args if arg.annotation is not None]


@pytest.mark.parametrize("name", DECLARED)
def test_a_frame_handler_takes_the_rooms_that_its_api_names(name: str) -> None:
    api = DECLARED[name]
    assert (api.frame is not None) is (api.key in ANSWERED_FROM_FRAMES)
    if api.frame is None:
        assert api.frame_rooms == ()
        return
    parameters = source_parameters(api.frame.__module__, api.frame.__name__)
    assert [parameter for parameter, _ in parameters[:4]] == FRAME_PARAMETERS
    rooms = ", ".join(room.__name__ for room in api.frame_rooms)
    assert parameters[4:] == [("rooms", f"tuple[{rooms}]"), ("access", "Access | None")]


def test_an_api_that_is_not_served_is_not_found() -> None:
    assert ApiTable(Ground()).served(9_999) is None


def test_a_request_of_the_node_itself_is_answered_by_its_own_handler(tmp_path: Path) -> None:
    async def scenario() -> None:
        ground = Ground(tmp_path)
        metadata = make_metadata(ground)
        table = ApiTable(ground)
        table.bind((ground, metadata, Authorization(ground)), metadata.controllership)
        acls = await table.answer(DescribeAclsRequest(), "1")
        assert isinstance(acls, DescribeAclsResponse)
        quotas = AlterClientQuotasRequest(entries=[])
        with pytest.raises(KafkaError) as refused:
            await table.answer(quotas, "1")
        assert refused.value.code is ErrorCode.NOT_CONTROLLER, "it is not forwarded"
        await lead(metadata)
        assert isinstance(await table.answer(quotas, "1"), AlterClientQuotasResponse)

    run_timed(scenario())
