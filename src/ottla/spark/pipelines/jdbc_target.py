"""A table of a database as the target of a flow, each batch exactly once.

The tasks of a batch write to a staging table beside the target, over as many connections as Spark likes. One
transaction then moves its rows to the target and notes the batch in `ottla_batches`, so that a batch that comes again
after a crash is known. The row of the query in that table is locked meanwhile: a driver that was taken for dead finds
the batch done when it goes on.

Each attempt at a batch has a staging table of its own: two drivers may run the same query, if one was taken for dead,
and neither may move rows that the other has staged in part. What dead drivers left is dropped when a later batch is
noted. No driver can need it: the transaction that would move it finds its batch done.

Spark runs a task again if its worker dies before the result of the task has arrived, and the database may have
committed the rows of the first attempt. Staged rows are therefore numbered by task and place, and a batch with a number
that comes twice is rolled back and done again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import Any
from uuid import UUID, uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ottla.spark.faults import fault_point
from ottla.spark.pipelines.definition import AT_LEAST_ONCE, Flow, PipelineError, Unavailable
from ottla.spark.pipelines.failures import failure
from ottla.spark.pipelines.jdbc import driver, explained
from ottla.spark.pipelines.redaction import public_address

BATCHES = "ottla_batches"
STAGING = "ottla_staging_"
KEYS = "_keys"
"""The end of the name of a second staging table."""
ROW = "ottla_row"
"""The column of a staging table that numbers its rows."""
A_BIGINT = 10_000_000_000
"""A literal of this type in every database; MySQL has no `cast(... as bigint)`."""
NO_BATCH = -1
DROP_TIMEOUT_S = 5
"""A staging table that a paused driver has locked is left to later."""
_OF_SPARK = {
    *("url", "dbtable", "driver", "batchsize", "truncate", "isolationlevel", "numpartitions", "createtableoptions"),
    *(
        "createtablecolumntypes",
        "cascadetruncate",
        "sessioninitstatement",
        "querytimeout",
        "preferTimestampNTZ".lower(),
    ),
}


class JdbcTarget:
    """The table of a flow."""

    def __init__(self, spark: SparkSession, flow: Flow) -> None:
        assert flow.jdbc is not None and flow.table is not None
        self._flow = flow
        self._url, self._table = flow.jdbc, flow.table
        self._replaces = flow.changes is not None and flow.changes.is_replaced
        self._options = {"url": self._url, **driver(self._url), **flow.options}
        self._jvm: Any = spark.sparkContext._jvm

    def check(self, columns: Iterable[str] = ()) -> None:
        """PipelineError: the database cannot be reached or used, or its table does not have these columns."""
        is_exact = self._flow.guarantee != AT_LEAST_ONCE
        with self._connection(is_transactional=is_exact) as connection:
            if is_exact:
                if columns and self._is_there(connection, self._table):
                    chosen = quoted_list(connection, columns)
                    self._rows(connection, f"select 1 from (select {chosen} from {self._table}) a where 1 = 0")
                connection.rollback()

    def append(self, rows: DataFrame, table: str | None = None) -> None:
        """Write rows as Spark does: what fails is tried again, and may have been written already."""
        rows.write.format("jdbc").mode("append").options(**self._options, dbtable=table or self._table).save()

    def write(
        self, batch: DataFrame, query_id: str, batch_id: int, *, replaces: bool = False, is_kept: bool = True
    ) -> None:
        """Write a batch of a query, unless it was written already. With `replaces` the first one takes the place of all
        rows, in the same transaction. If it is not kept, that transaction is rolled back."""
        if self._flow.guarantee == AT_LEAST_ONCE:
            self.append(batch)
            return
        staging = f"{_staging(query_id)}_{batch_id}_{uuid4().hex[:6]}"
        with self._connection() as connection:
            self._make_tables(connection, batch, query_id)
            last_batch = self._last_batch(connection, query_id)
            if last_batch >= batch_id:
                return
            self._make_staging(connection, staging, batch)
            connection.commit()
        is_first = replaces and last_batch == NO_BATCH
        try:
            self._stage(batch, staging, onto_nothing=is_first)
            fault_point("jdbc-staged", batch_id)
            with self._connection() as connection:
                note = f"update {BATCHES} set batch_id = {batch_id} where query_id = ? and batch_id < {batch_id}"
                if self._run(connection, note, query_id) == 1:
                    if is_first:
                        self._empty(connection)
                    self._check_rows(connection, staging)
                    self._move(connection, staging, batch)
                    self._check_rows(connection, staging)  # an attempt may have ended meanwhile
                    fault_point("jdbc-undecided", batch_id)
                    if is_kept:
                        connection.commit()
                        fault_point("jdbc-committed", batch_id)
                connection.rollback()
                self._drop(connection, [staging, staging + KEYS, *self._left_over(connection, query_id, batch_id)])
        except Exception:
            with suppress(PipelineError), self._connection() as connection:
                self._drop(connection, [staging, staging + KEYS])
            raise

    def forget(self, query_id: str) -> None:
        """Remove the entries of a query whose checkpoint was removed."""
        with self._connection() as connection:
            self._drop(connection, self._left_over(connection, query_id, None))
            if self._is_there(connection, BATCHES):
                self._run(connection, f"delete from {BATCHES} where query_id = ?", query_id)
            connection.commit()

    def _make_staging(self, connection: Any, staging: str, batch: DataFrame) -> None:
        columns = quoted_list(connection, batch.columns)
        made = f"select {columns}, {A_BIGINT} as {ROW} from {self._table} where 1 = 0"
        self._run(connection, f"create table {staging} as {made}")

    def _left_over(self, connection: Any, query_id: str, batch_id: int | None) -> list[str]:
        """The staging tables of a query for batches before this one, or all of them. Those of this batch stay: another
        driver may be at work on it."""
        prefix = _staging(query_id)
        found = []
        for name in self._tables(connection, prefix):
            number = name[len(prefix) :].strip("_").split("_")[0]  # the version before had no number in its names
            if batch_id is None or not number.isdecimal() or int(number) < batch_id:
                found.append(name)
        return found

    def _tables(self, connection: Any, prefix: str) -> list[str]:
        """The tables whose names begin so."""
        about = connection.getMetaData()
        pattern = f"{prefix.upper() if about.storesUpperCaseIdentifiers() else prefix}%"
        try:
            found, names = about.getTables(connection.getCatalog(), connection.getSchema(), pattern, None), []
            while found.next():
                names.append(str(found.getString("TABLE_NAME")))
        except Exception as error:
            raise self._failed(f"tables like {pattern}", error) from None
        return [name for name in names if name.lower().startswith(prefix)]

    def _drop(self, connection: Any, tables: Iterable[str]) -> None:
        """Drop staging tables, outside the transaction of a batch: MySQL commits an open transaction when a table is
        created or dropped. One that cannot be dropped now is dropped after a later batch."""
        for table in tables:
            try:
                self._run(connection, f"drop table if exists {table}", timeout_s=DROP_TIMEOUT_S)
                connection.commit()
            except PipelineError:
                with suppress(Exception):
                    connection.rollback()

    def _stage(self, batch: DataFrame, staging: str, *, onto_nothing: bool) -> None:
        """Write what a batch makes of the target, or with `onto_nothing` of an empty one, to the table beside it."""
        self._append_numbered(batch, staging)

    def _append_numbered(self, rows: DataFrame, staging: str) -> None:
        self.append(rows.withColumn(ROW, F.monotonically_increasing_id()), staging)

    def _check_rows(self, connection: Any, staging: str) -> None:
        """Unavailable: rows of a task were staged twice."""
        [count] = self._rows(connection, f"select count({ROW}) - count(distinct {ROW}) from {staging}")
        if count:
            raise Unavailable(
                f"flows.{self._flow.name}: a worker died when it had written {count} rows, and another one wrote them "
                "again: the batch is written anew"
            )

    def _empty(self, connection: Any) -> None:
        """Remove all rows, within the transaction that brings others."""
        self._run(connection, f"delete from {self._table}")

    def _move(self, connection: Any, staging: str, batch: DataFrame) -> None:
        """Bring a staged batch to the target, within the transaction that notes it."""
        columns = quoted_list(connection, batch.columns)
        if self._replaces:
            self._run(connection, f"delete from {self._table}")
        self._run(connection, f"insert into {self._table} ({columns}) select {columns} from {staging}")

    def _make_tables(self, connection: Any, batch: DataFrame, query_id: str) -> None:
        """Create the target if it is missing, and the query's row of `ottla_batches`."""
        self._make(connection, self._table, lambda: self._make_target(connection, batch))
        batches = f"create table {BATCHES} (query_id varchar(64) primary key, batch_id bigint not null)"
        self._make(connection, BATCHES, lambda: self._run(connection, batches))
        if not self._rows(connection, f"select 1 from {BATCHES} where query_id = ?", query_id):
            self._run(connection, f"insert into {BATCHES} (query_id, batch_id) values (?, {NO_BATCH})", query_id)
        connection.commit()

    def _make(self, connection: Any, table: str, create: Callable[[], object]) -> None:
        """Make a table, if there is none. Another flow may make it at the same time, and `create` fails then."""
        if self._is_there(connection, table):
            return
        try:
            create()
        except Unavailable:
            raise
        except Exception:
            connection.rollback()
            if not self._is_there(connection, table):
                raise
        connection.commit()

    def _make_target(self, connection: Any, rows: DataFrame) -> None:
        """Create the target for rows. Spark does not understand SQLite's message that there is no table."""
        if product(connection)[0] != "sqlite":
            self.append(rows.limit(0))
            return
        jdbc = self._jvm.org.apache.spark.sql
        dialect, none = jdbc.jdbc.JdbcDialects.get(self._url), self._jvm.scala.Option.empty()
        utils = jdbc.execution.datasources.jdbc.JdbcUtils
        columns = utils.schemaString(dialect, rows._jdf.schema(), False, none)
        self._run(connection, f"create table {self._table} ({columns})")
        connection.commit()

    def _is_there(self, connection: Any, table: str) -> bool:
        try:
            self._rows(connection, f"select 1 from {table} where 1 = 0")
            return True
        except Unavailable:
            raise
        except PipelineError:
            connection.rollback()
            return False

    def _last_batch(self, connection: Any, query_id: str) -> int:
        found = self._rows(connection, f"select batch_id from {BATCHES} where query_id = ?", query_id)
        return found[0] if found else NO_BATCH

    # The driver in the JVM

    @contextmanager
    def _connection(self, *, is_transactional: bool = True) -> Iterator[Any]:
        """A connection whose statements are one transaction until they are committed."""
        properties = self._jvm.java.util.Properties()
        for key, value in self._options.items():
            if key.lower() not in _OF_SPARK:
                properties.setProperty(key, value)
        name = self._options.get("driver")
        try:
            if name is not None:
                self._jvm.org.apache.spark.sql.execution.datasources.jdbc.DriverRegistry.register(name)
            connection = self._jvm.java.sql.DriverManager.getConnection(self._url, properties)
        except Exception as error:
            address = public_address(self._url)
            what = f"flows.{self._flow.name}: no connection to {address}"
            raise failure(what, str(error), cause=explained(error), default=PipelineError) from None
        try:
            if is_transactional and not connection.getMetaData().supportsTransactions():
                raise PipelineError(
                    f"flows.{self._flow.name}: the database has no transactions, and without them a batch may be "
                    "written twice after a crash: say 'guarantee: at_least_once' if that will do"
                )
            connection.setAutoCommit(not is_transactional)
            yield connection
        finally:
            connection.close()

    def _run(self, connection: Any, statement: str, *values: str, timeout_s: int = 0) -> int:
        """Run a statement; how many rows it changed."""
        prepared = self._prepared(connection, statement, values)
        try:
            if timeout_s:
                prepared.setQueryTimeout(timeout_s)
            return int(prepared.executeUpdate())
        except Exception as error:
            raise self._failed(statement, error) from None
        finally:
            prepared.close()

    def _rows(self, connection: Any, statement: str, *values: str) -> list[int]:
        """The first column of a query, numbers."""
        prepared = self._prepared(connection, statement, values)
        try:
            found, rows = prepared.executeQuery(), []
            while found.next():
                rows.append(int(found.getLong(1)))
            return rows
        except Exception as error:
            raise self._failed(statement, error) from None
        finally:
            prepared.close()

    def _prepared(self, connection: Any, statement: str, values: tuple[str, ...]) -> Any:
        try:
            prepared = connection.prepareStatement(statement)
        except Exception as error:
            raise self._failed(statement, error) from None
        for index, value in enumerate(values, 1):
            prepared.setString(index, value)
        return prepared

    def _failed(self, statement: str, error: Exception) -> PipelineError:
        found = failure(f"flows.{self._flow.name}", str(error), cause=explained(error), default=PipelineError)
        if isinstance(found, Unavailable):
            return found
        return PipelineError(
            f"flows.{self._flow.name}: {explained(error)} ({statement}). To write exactly once the tables {BATCHES} "
            f"and {STAGING}... are made beside {self._table}; 'guarantee: at_least_once' does without them"
        )


def product(connection: Any) -> tuple[str, int]:
    """The name of a database, and the first number of its version."""
    about = connection.getMetaData()
    return str(about.getDatabaseProductName()).lower(), int(about.getDatabaseMajorVersion())


def _staging(query_id: str) -> str:
    """The beginning of the names of a query's staging tables, of which databases allow 63 letters."""
    try:
        return STAGING + UUID(query_id).hex[:24]
    except ValueError:
        return STAGING + sha256(query_id.encode()).hexdigest()[:24]


def quoted_list(connection: Any, names: Iterable[str], prefix: str = "") -> str:
    return ", ".join(prefix + quoted(connection, name) for name in names)


def quoted(connection: Any, name: str) -> str:
    mark = connection.getMetaData().getIdentifierQuoteString().strip()
    return f"{mark}{name.replace(mark, mark * 2)}{mark}" if mark else name
