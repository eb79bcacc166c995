"""Cases of a pipeline: rows in, what is expected of the flows and of the dead letters. `tests/*.yml` has them.

    set: {OUTPUT: out}                       # values for ${...}; also inside of a case
    given: {customers: [...]}                # rows for every case of the file
    cases:
      an order gets its customer:
        given:                               # by source; a list of such mappings is several batches
          orders:
            - {order_id: 1, quantity: 2}     # columns
            - {_key: a, _value: "{bad"}      # a record: also _headers, _timestamp, _partition, _offset, _topic
            - '{"order_id": 2}'              # a text: the value of a record, or a line of a file
        expect:                              # by flow; only the columns that a case names are compared
          accepted: [{order_id: 1, _key: GR}]
        letters: [{rule: parse, source: orders}]

Files in, cases out; nothing of Spark is needed for that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ottla.spark.pipelines.definition import Pipeline, PipelineError
from ottla.spark.pipelines.documents import load_document
from ottla.spark.pipelines.file_key import FLAG, LIST, NAMED, TEXT, TEXTS, FileKey

FOLDER = "tests"
VALUE, KEY, HEADERS, TIMESTAMP = "_value", "_key", "_headers", "_timestamp"
TOPIC, PARTITION, OFFSET = "_topic", "_partition", "_offset"
RECORD_KEYS = (VALUE, KEY, HEADERS, TIMESTAMP, TOPIC, PARTITION, OFFSET)
LETTER_KEYS = ("source", "rule", "error", "key", "value")
MAX_FILE_BYTES = 32 * 1024 * 1024
CASE_FILE_KEYS: Final = {
    "cases": FileKey(NAMED, "the cases by their names"),
    "given": FileKey(NAMED, "rows for every case of the file, by source"),
    "set": FileKey(TEXTS, "values for `${NAME}` in every case of the file"),
}
CASE_KEYS: Final = {
    "about": FileKey(TEXT, "a sentence about the case"),
    "given": FileKey(NAMED, "rows by source: see [Given rows](testing.md#given-rows)"),
    "expect": FileKey(
        NAMED,
        "rows by flow, in any order, each as often as it comes. Only the columns that a row names are compared; `x: "
        "null` expects a null. `{ordered: true, exact: true, rows: [...]}` expects this order and no other columns. A "
        "number is how many rows there are. Flows that are not named are not run",
    ),
    "letters": FileKey(
        LIST, "the dead letters: `source`, `rule`, `error`, `key`, `value`. Without this key there must be none"
    ),
    "fails": FileKey(
        TEXT, "instead of `expect` and `letters`: a part of the error that ends the pipeline (`action: fail`)"
    ),
    "set": FileKey(TEXTS, "values for `${NAME}` in this case. The environment is not read, and no secrets are needed"),
}
GIVEN_KEYS: Final = {
    "rows": FileKey(LIST, "the rows"),
    "file": FileKey(TEXT, "instead of `rows`: a file beside the case, each line a row"),
    "schema": FileKey(TEXT, "the columns, as in SQL, of a source that is a table or a database"),
}
EXPECTED_KEYS: Final = {
    "rows": FileKey(LIST, "the rows, or how many there are"),
    "ordered": FileKey(FLAG, "rows have this order", "false"),
    "exact": FileKey(FLAG, "rows have no other columns", "false"),
}


@dataclass(frozen=True, slots=True)
class Given:
    """The rows of one source in one batch."""

    rows: tuple[Any, ...]
    schema: str | None = None
    """Columns in SQL, for a source whose definition has none."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The rows that a flow is expected to write."""

    rows: tuple[Mapping[str, Any], ...] = ()
    count: int | None = None
    """Only so many rows are expected, whatever is in them."""
    is_ordered: bool = False
    is_exact: bool = False
    """Whether columns that the case does not name are an error."""


@dataclass(frozen=True, slots=True)
class Case:
    """One case."""

    name: str
    file: Path
    batches: tuple[Mapping[str, Given], ...] = ()
    expected: Mapping[str, Expected] = field(default_factory=dict)
    letters: Expected | None = Expected()
    """None: letters are not compared, since the case expects the pipeline to end."""
    fails: str | None = None
    """A part of the error that ends the pipeline."""
    variables: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.file.stem}: {self.name}"


def case_files(folder: Path) -> list[Path]:
    tests = folder / FOLDER
    return sorted([*tests.glob("*.yml"), *tests.glob("*.yaml")])


def load_cases(folder: Path, pattern: str | None = None) -> list[Case]:
    """The cases of a pipeline's folder whose file or name has the pattern in it."""
    found = [case for path in case_files(folder) for case in load_file(path)]
    if pattern is None:
        return found
    wanted = pattern.lower()
    return [case for case in found if wanted in case.name.lower() or wanted in case.file.stem.lower()]


def load_file(path: Path) -> list[Case]:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise PipelineError(f"it has more than {MAX_FILE_BYTES // 2**20} MB: cases are small")
        return list(parse_cases(path, load_document(path, has_rows=True)))
    except OSError as error:
        raise PipelineError(f"{path}: it cannot be read: {error}") from None
    except PipelineError as error:
        raise PipelineError(f"{path}: {error}") from None


def parse_cases(path: Path, document: object) -> Iterator[Case]:
    given = _section(document, "the file", CASE_FILE_KEYS)
    cases = given.get("cases")
    if not isinstance(cases, dict) or not cases:
        raise PipelineError("cases: names with cases are expected, e.g. 'cases: {an order passes: {given: ...}}'")
    shared, variables = _batches(given.get("given"), "given", path), _variables(given, "the file")
    if len(shared) > 1:
        raise PipelineError("given: rows for all cases are one batch; write a list of batches into a case")
    for name, value in cases.items():
        where = f"cases.{name}"
        one = _section(value, where, CASE_KEYS)
        batches = _batches(one.get("given"), f"{where}.given", path)
        fails = one.get("fails")
        if fails is not None and not isinstance(fails, str):
            raise PipelineError(f"{where}.fails: a part of the error is expected, as text")
        if fails is not None and ("expect" in one or "letters" in one):
            raise PipelineError(f"{where}: a case with 'fails' ends with an error: it has no 'expect' and no 'letters'")
        if "expect" not in one and "letters" not in one and fails is None:
            raise PipelineError(f"{where}: it expects nothing: say 'expect', 'letters' or 'fails'")
        yield Case(
            name=str(name),
            file=path,
            batches=_with_shared(shared, batches),
            expected=_expected_flows(one.get("expect"), f"{where}.expect"),
            letters=None if fails is not None else _expected(one.get("letters", ()), f"{where}.letters"),
            fails=fails,
            variables={**variables, **_variables(one, where)},
        )


def check_names(case: Case, pipeline: Pipeline) -> None:
    """PipelineError: the case names sources, flows, columns or letters that are not of the pipeline."""
    sources, flows = [one.name for one in pipeline.sources], [one.name for one in pipeline.flows]
    for batch in case.batches:
        for name in batch:
            if name not in sources:
                raise _unknown(case, "given", name, "source", sources)
    for name in case.expected:
        if name not in flows:
            raise _unknown(case, "expect", name, "flow", flows)
    for letter in case.letters.rows if case.letters is not None else ():
        unknown = [key for key in letter if key not in LETTER_KEYS]
        if unknown:
            raise PipelineError(
                f"{case.file}: cases.{case.name}.letters: a letter has {', '.join(LETTER_KEYS)}, not {unknown[0]}"
            )


def _unknown(case: Case, key: str, name: str, kind: str, known: Sequence[str]) -> PipelineError:
    return PipelineError(
        f"{case.file}: cases.{case.name}.{key}: there is no {kind} {name}; the pipeline has {', '.join(known)}"
    )


# --- parts of a case


def _with_shared(
    shared: tuple[Mapping[str, Given], ...], batches: tuple[Mapping[str, Given], ...]
) -> tuple[Mapping[str, Given], ...]:
    """The batches of a case; rows for all cases are in the first, unless the case has its own of that source."""
    if not shared:
        return batches
    own = {name for batch in batches for name in batch}
    first = {name: rows for name, rows in shared[0].items() if name not in own}
    return ({**first, **batches[0]}, *batches[1:]) if batches else (first,)


def _batches(document: object, where: str, path: Path) -> tuple[Mapping[str, Given], ...]:
    if document is None:
        return ()
    batches = document if isinstance(document, list) else [document]
    return tuple(_batch(one, where, path) for one in batches)


def _batch(document: object, where: str, path: Path) -> Mapping[str, Given]:
    if not isinstance(document, dict):
        raise PipelineError(f"{where}: sources with their rows are expected, or a list of such batches")
    return {str(name): _given(rows, f"{where}.{name}", path) for name, rows in document.items()}


def _given(document: object, where: str, path: Path) -> Given:
    schema = None
    if isinstance(document, dict):
        parts = _section(document, where, GIVEN_KEYS)
        schema = parts.get("schema")
        if schema is not None and not isinstance(schema, str):
            raise PipelineError(f"{where}.schema: columns as SQL has them are expected, e.g. 'id bigint'")
        if "file" in parts:
            return Given(tuple(_lines(path.parent / str(parts["file"]), where)), schema)
        document = parts.get("rows")
    if document is None:
        document = []
    if not isinstance(document, list):
        raise PipelineError(f"{where}: a list of rows is expected, or {{schema: ..., rows: [...]}} or {{file: NAME}}")
    for row in document:
        if not isinstance(row, dict | str | bytes) and row is not None:
            raise PipelineError(
                f"{where}: a row is columns with values, a text or null (a record without value), not {row!r}"
            )
        if isinstance(row, dict) and VALUE in row and not row.keys() <= set(RECORD_KEYS):
            other = next(key for key in row if key not in RECORD_KEYS)
            raise PipelineError(f"{where}: a row has {VALUE} or columns, not both ({other})")
    return Given(tuple(document), schema)


def _lines(path: Path, where: str) -> list[str]:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise PipelineError(f"{where}.file: {path} has more than {MAX_FILE_BYTES // 2**20} MB: cases are small")
        return [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineError(f"{where}.file: {error}") from None


def _expected_flows(document: object, where: str) -> dict[str, Expected]:
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise PipelineError(f"{where}: flows with their rows are expected")
    return {str(name): _expected(rows, f"{where}.{name}") for name, rows in document.items()}


def _expected(document: object, where: str) -> Expected:
    is_ordered = is_exact = False
    if isinstance(document, dict):
        parts = _section(document, where, EXPECTED_KEYS)
        is_ordered, is_exact = (parts.get(key, False) for key in ("ordered", "exact"))
        if not isinstance(is_ordered, bool) or not isinstance(is_exact, bool):
            raise PipelineError(f"{where}: 'ordered' and 'exact' are true or false")
        document = parts.get("rows")
    if isinstance(document, int) and not isinstance(document, bool):
        return Expected(count=document)
    if document is None:
        document = []
    if not isinstance(document, list | tuple):
        raise PipelineError(f"{where}: a list of rows is expected, or how many there are")
    for row in document:
        if not isinstance(row, dict):
            raise PipelineError(f"{where}: a row is columns with values, not {row!r}")
    return Expected(tuple(document), is_ordered=is_ordered, is_exact=is_exact)


def _variables(given: Mapping[str, Any], where: str) -> dict[str, str]:
    value = given.get("set", {})
    if not isinstance(value, dict) or any(isinstance(one, dict | list) for one in value.values()):
        raise PipelineError(f"{where}.set: names with texts are expected, e.g. 'set: {{INPUT: in}}'")
    return {str(name): str(one).lower() if isinstance(one, bool) else str(one) for name, one in value.items()}


def _section(document: object, where: str, known: Collection[str]) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise PipelineError(f"{where}: names with values are expected ({', '.join(known)})")
    for key in document:
        if key not in known:
            raise PipelineError(f"{where}: '{key}' is not known; there may be {', '.join(known)}")
    return document
