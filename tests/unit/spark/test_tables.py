"""Delta and Iceberg tables on a local disk, without Spark: each batch once, compaction, new columns, following."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow
import pyarrow.parquet as pq
import pytest

from ottla.spark.tables import table as tables
from ottla.spark.tables.table import (
    BatchOfQuery,
    FileToRead,
    NoTable,
    Table,
    TableError,
    TableSettings,
    check_table,
    open_table,
    prepare_table,
    write_batch,
)

MOMENT = datetime(2026, 11, 16, 7, 0, 0, 123456, tzinfo=UTC)
COUNTRIES = ("GR", "CZ", None, "a/b c=%25 ž")
SCHEMA = pyarrow.schema(
    [
        ("id", pyarrow.int64()),
        ("country", pyarrow.string()),
        ("at", pyarrow.timestamp("us", "UTC")),
        ("tags", pyarrow.list_(pyarrow.string())),
    ]
)
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


@pytest.fixture(params=["delta", "iceberg"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> TableSettings:
    if request.param == "delta":
        made = TableSettings("delta", str(tmp_path / "orders"), partition_by=("country",))
    else:
        catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}"}
        made = TableSettings("iceberg", "shop.orders", catalog, partition_by=("country",))
    return TableSettings.from_json(made.to_json())


@pytest.fixture
def table(settings: TableSettings) -> Table:
    return prepare_table(settings, SCHEMA)


def order(number: int) -> dict[str, Any]:
    return {"id": number, "country": COUNTRIES[number % len(COUNTRIES)], "at": MOMENT, "tags": ["x", None]}


def orders(first: int, last: int) -> Iterator[pyarrow.RecordBatch]:
    rows = [order(number) for number in range(first, last)]
    return iter(pyarrow.Table.from_pylist(rows, SCHEMA).to_batches(max_chunksize=3))


def write(settings: TableSettings, first: int, last: int, batch_id: int) -> bool:
    """What a batch does, each step with the table as it is then."""
    files = open_table(settings).write_files(orders(first, last))
    return write_batch(open_table(settings), files, BatchOfQuery("query", batch_id))


def rows(settings: TableSettings, files: list[FileToRead]) -> list[dict[str, Any]]:
    table = open_table(settings)
    found = [row for file in files for batch in table.read(file) for row in batch.to_pylist()]
    return sorted(found, key=lambda row: int(row["id"]))


def present(settings: TableSettings) -> list[dict[str, Any]]:
    table = open_table(settings)
    return rows(settings, table.files_of(table.version()))


def ids(found: list[dict[str, Any]]) -> list[int]:
    return [row["id"] for row in found]


def data_files(settings: TableSettings, tmp_path: Path) -> set[Path]:
    return set(tmp_path.rglob("*.parquet")) - set(tmp_path.rglob("_delta_log/*"))


def test_a_batch_that_comes_again_is_known_and_leaves_nothing(
    settings: TableSettings, table: Table, tmp_path: Path
) -> None:
    assert write(settings, 0, 10, 0)
    before = data_files(settings, tmp_path)
    assert not write(settings, 0, 10, 0)
    assert data_files(settings, tmp_path) == before
    assert write(settings, 10, 20, 1)
    assert open_table(settings).last_batch("query") == 1
    assert open_table(settings).last_batch("another") is None
    assert present(settings) == [order(number) for number in range(20)]


@pytest.mark.parametrize("step", ["table-undecided", "table-committed"])
def test_a_driver_that_dies_leaves_each_row_once(
    settings: TableSettings, table: Table, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class DriverDied(BaseException):
        pass

    def die(at: str, batch_id: int) -> None:
        if (at, batch_id) == (step, 1):
            raise DriverDied

    assert write(settings, 0, 5, 0)
    monkeypatch.setattr("ottla.spark.faults.fault_point", die)
    with pytest.raises(DriverDied):
        write(settings, 5, 10, 1)
    monkeypatch.undo()
    assert write(settings, 5, 10, 1) == (step == "table-undecided")
    assert ids(present(settings)) == list(range(10))


def test_small_files_become_large_and_followers_see_nothing_of_it(settings: TableSettings, table: Table) -> None:
    for number in range(3):
        write(settings, number * 8, number * 8 + 8, number)
        if number == 0:
            first = open_table(settings).version()
    before = open_table(settings).version()
    done = open_table(settings).compact()
    assert (done.removed_count, done.added_count) == (12, 4)
    assert open_table(settings).compact().removed_count == 0
    after = open_table(settings).version()
    assert present(settings) == [order(number) for number in range(24)]
    assert open_table(settings).files_between(before, after) == []
    assert ids(rows(settings, open_table(settings).files_between(first, after))) == list(range(8, 24))
    write(settings, 24, 25, 3)
    following = open_table(settings)
    assert ids(rows(settings, following.files_between(after, following.version()))) == [24]


def test_a_commit_that_others_overtook_is_made_on_top_of_theirs(
    settings: TableSettings, table: Table, tmp_path: Path
) -> None:
    files = open_table(settings).write_files(orders(0, 4))
    behind, zombie = open_table(settings), open_table(settings)
    write_batch(open_table(settings), open_table(settings).write_files(orders(4, 8)), BatchOfQuery("another", 0))
    behind.commit(files, BatchOfQuery("query", 0))
    assert ids(present(settings)) == list(range(8))
    if settings.kind == "iceberg":  # a driver that was taken for dead goes on with the same batch
        again = open_table(settings).write_files(orders(0, 4))
        before = data_files(settings, tmp_path)
        zombie.commit(again, BatchOfQuery("query", 0))
        assert len(before - data_files(settings, tmp_path)) == len(again)
    else:
        with pytest.raises(Exception, match=r"(?i)transaction|conflict"):
            zombie.commit(open_table(settings).write_files(orders(0, 4)), BatchOfQuery("query", 0))
    assert ids(present(settings)) == list(range(8))


def test_a_table_grows_only_where_it_may(settings: TableSettings, table: Table) -> None:
    write(settings, 0, 2, 0)
    larger = SCHEMA.append(pyarrow.field("note", pyarrow.string()))
    for prepare in (prepare_table, check_table):
        with pytest.raises(TableError, match=r"has no column note.*'evolve: true'"):
            prepare(settings, larger)
    check_table(replace(settings, evolves=True), larger)
    assert "note" not in open_table(settings).schema().names
    grown = prepare_table(replace(settings, evolves=True), larger)
    new = pyarrow.Table.from_pylist([{**order(2), "note": "new"}], larger).to_batches()
    write_batch(open_table(settings), grown.write_files(iter(new)), BatchOfQuery("query", 1))
    write(settings, 3, 4, 2)  # a writer that does not know of the column
    assert [row["note"] for row in present(settings)] == [None, None, "new", None]


@pytest.mark.parametrize(
    ("schema", "partition_by", "message"),
    [
        (pyarrow.schema([("id", pyarrow.string())]), ("country",), "the column id is string, and int64 in the table"),
        (pyarrow.schema([("tags", pyarrow.string())]), ("country",), "the column tags is string"),
        (SCHEMA, ("id",), "is partitioned by country, not by id"),
    ],
)
def test_rows_that_do_not_fit_are_refused(
    settings: TableSettings, table: Table, schema: pyarrow.Schema, partition_by: tuple[str, ...], message: str
) -> None:
    with pytest.raises(TableError, match=message):
        prepare_table(replace(settings, partition_by=partition_by), schema)


def test_a_type_that_tables_do_not_have_is_refused_before_a_table_is_made(settings: TableSettings) -> None:
    refused = [(pyarrow.duration("us"), r"the column note is of the type duration\[us\]")]
    if settings.kind == "iceberg":
        nested = pyarrow.list_(pyarrow.struct([("a", pyarrow.null())]))
        refused += [(kind, r"the column note is of no type \(it is always null\)") for kind in (pyarrow.null(), nested)]
    for kind, message in refused:
        schema = SCHEMA.append(pyarrow.field("note", kind))
        for look in (check_table, prepare_table):
            with pytest.raises(TableError, match=f"{message}.*: cast.* in the view"):
                look(settings, schema)
        with pytest.raises(NoTable):
            open_table(settings)
    prepare_table(settings, SCHEMA)
    with pytest.raises(TableError, match=message):
        prepare_table(replace(settings, evolves=True), schema)


def test_narrower_numbers_are_widened(settings: TableSettings, table: Table) -> None:
    narrow = SCHEMA.set(0, pyarrow.field("id", pyarrow.int32()))
    files = prepare_table(settings, narrow).write_files(
        iter(pyarrow.Table.from_pylist([order(0)], narrow).to_batches())
    )
    write_batch(open_table(settings), files, None)
    assert present(settings) == [order(0)]


def test_a_table_that_is_not_there_is_an_error(settings: TableSettings) -> None:
    with pytest.raises(TableError, match=r"there is no (Delta|Iceberg) table"):
        open_table(settings)
    check_table(settings, SCHEMA)
    with pytest.raises(TableError):
        open_table(settings)


def test_memory_is_bounded_by_writing_in_pieces(
    settings: TableSettings, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.spark.tables.data_files.CHUNK_SIZE", 1)
    assert len(open_table(settings).write_files(orders(0, 12))) == 12


def test_changed_rows_end_a_stream_that_follows_the_table(settings: TableSettings, table: Table) -> None:
    write(settings, 0, 8, 0)
    first = open_table(settings).version()
    if settings.kind == "delta":
        from deltalake import DeltaTable

        DeltaTable(settings.place).delete("country = 'GR'")
    else:
        from pyiceberg.catalog import load_catalog

        load_catalog(**settings.catalog).load_table(settings.place).delete("country == 'GR'")
    changed = open_table(settings)
    with pytest.raises(TableError, match="changes or removes rows"):
        changed.files_between(first, changed.version())
    assert ids(present(settings)) == [1, 2, 3, 5, 6, 7]


def test_delta_is_what_its_protocol_says(tmp_path: Path) -> None:
    """Read with nothing but JSON and Parquet, as another reader would."""
    settings = TableSettings("delta", str(tmp_path / "t"), partition_by=("country",))
    prepare_table(settings, SCHEMA)
    write(settings, 0, 4, 7)
    log = (tmp_path / "t" / "_delta_log" / f"{1:020d}.json").read_text().splitlines()
    actions = [json.loads(line) for line in log]
    (transaction,) = [one["txn"] for one in actions if "txn" in one]
    assert (transaction["appId"], transaction["version"]) == ("query", 7)
    added = [one["add"] for one in actions if "add" in one]
    assert {one["partitionValues"]["country"] for one in added} == set(COUNTRIES)
    folders = {"GR": "GR", "CZ": "CZ", None: "__HIVE_DEFAULT_PARTITION__", COUNTRIES[3]: "a%2Fb%20c%3D%2525%20%C5%BE"}
    for one in added:
        path = tmp_path / "t" / unquote(one["path"])
        assert path.parent.name == f"country={folders[one['partitionValues']['country']]}"
        file = pq.ParquetFile(path)
        (number,) = file.read().column("id").to_pylist()
        assert "country" not in file.schema_arrow.names
        assert COUNTRIES[number] == one["partitionValues"]["country"]
        assert json.loads(one["stats"])["minValues"] == {"id": number}
        assert path.stat().st_size == one["size"]


def test_delta_partitions_of_every_type_are_read_by_others_and_here(tmp_path: Path) -> None:
    from deltalake import DeltaTable

    schema = pyarrow.schema(
        [
            ("id", pyarrow.int64()),
            ("at", pyarrow.timestamp("us", "UTC")),
            ("day", pyarrow.date32()),
            ("price", pyarrow.decimal128(10, 2)),
            ("is_new", pyarrow.bool_()),
        ]
    )
    given = [
        {"id": 0, "at": MOMENT, "day": MOMENT.date(), "price": Decimal("1E+2"), "is_new": True},
        {"id": 1, "at": None, "day": None, "price": None, "is_new": None},
        {"id": 2, "at": MOMENT.replace(microsecond=0), "day": MOMENT.date(), "price": Decimal("0.50"), "is_new": False},
    ]
    settings = TableSettings("delta", str(tmp_path / "t"), partition_by=("at", "day", "price", "is_new"))
    files = prepare_table(settings, schema).write_files(iter(pyarrow.Table.from_pylist(given, schema).to_batches()))
    write_batch(open_table(settings), files, None)
    first = "at=2026-11-16%2007%3A00%3A00.123456/day=2026-11-16/price=100.00/is_new=true"
    assert len(list((tmp_path / "t" / first).iterdir())) == 1
    others = DeltaTable(settings.place).to_pyarrow_table().to_pylist()
    assert sorted(others, key=lambda row: int(row["id"])) == given
    assert present(settings) == given
    assert rows(settings, open_table(settings).files_between(0, 1)) == given


def test_iceberg_names_the_batch_in_its_snapshot(tmp_path: Path) -> None:
    from pyiceberg.catalog import load_catalog

    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}"}
    settings = TableSettings("iceberg", "shop.orders", catalog)
    prepare_table(settings, SCHEMA)
    write(settings, 0, 4, 7)
    found = load_catalog(**catalog).load_table("shop.orders")
    snapshot = found.current_snapshot()
    assert snapshot is not None and snapshot.summary is not None
    assert snapshot.summary.additional_properties["ottla.batch-id"] == "7"
    assert found.scan().to_arrow().num_rows == 4
    with pytest.raises(TableError, match=r"named NAMESPACE\.TABLE"):
        prepare_table(replace(settings, place="orders"), SCHEMA)


def test_nothing_is_committed_for_an_empty_batch(settings: TableSettings, table: Table) -> None:
    before = open_table(settings).version()
    assert tables.write_batch(open_table(settings), [], BatchOfQuery("query", 0))
    assert open_table(settings).version() == before
