"""`ottla pipeline test`: the cases of pipelines, in one Spark, without a broker."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.cli.output import TABLE, notice, printable, write_document
from ottla.cli.session import FAILED, MISUSED, CommandError, key_value
from ottla.cli.spark_errors import command_error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.spark.pipelines.case_run import CaseResult
    from ottla.spark.pipelines.cases import Case
    from ottla.spark.pipelines.connection import Connection
    from ottla.spark.pipelines.state import PipelineState

WATCH_EVERY_S = 0.5
MAX_WATCHED = 10_000
Folder = Callable[[argparse.Namespace], Path]
Opened = Callable[[argparse.Namespace], tuple[Any, "PipelineState", "Connection"]]


def add_test_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-k", dest="pattern", metavar="TEXT", help="only cases with this text in their name or file")
    parser.add_argument("--watch", action="store_true", help="run again whenever a file of the pipeline changes")
    parser.add_argument("--junit", metavar="FILE", help="write the results as JUnit XML, too")
    parser.add_argument(
        "--record",
        metavar="SOURCE",
        nargs="*",
        help="make a case of the newest records of these sources or topics (all)",
    )
    parser.add_argument("--count", type=int, default=20, help="of --record: how many records of each source (20)")
    parser.add_argument(
        "--mask", metavar="FIELD,...", action="append", default=[],
        help="of --record: fields that become pseudonyms, by path or name (email,customer.name; key for keys)",
    )  # fmt: skip
    parser.add_argument("--no-mask", action="store_true", help="of --record: take records as they are")
    parser.add_argument("--master", default="local[2]", help="where Spark runs (local[2])")
    parser.add_argument(
        "--set", dest="variables", metavar="NAME=VALUE", type=key_value, action="append", default=[],
        help="a value for ${NAME} in pipeline.yml; the environment is not asked",
    )  # fmt: skip


def test_pipelines(options: argparse.Namespace, existing_folder: Folder, opened: Opened) -> int:
    from ottla.spark.pipelines.redaction import Redaction

    try:
        if options.record is not None:
            return _record(options, existing_folder, opened)
        folders = _folders(options, existing_folder)
        if options.watch:
            with _spark(options) as (spark, workspace):
                return _watch(options, folders, spark, workspace)
        cases = _chosen(options, folders)
        with _spark(options) as (spark, workspace):
            return _run_all(options, cases, spark, workspace)
    except (BrokenPipeError, KeyboardInterrupt):
        raise
    except Exception as error:
        raise command_error(error, options.name or "", "", Redaction.of(None, None)) from None


def _folders(options: argparse.Namespace, existing_folder: Folder) -> list[Path]:
    """The pipeline that is named; without a name the one of this folder, or all in --folder that have cases."""
    from ottla.spark.pipelines.cases import case_files
    from ottla.spark.pipelines.definition import FILE_NAME

    if options.name is not None:
        folder = existing_folder(options)
        if not (folder / FILE_NAME).is_file():
            raise CommandError(f"there is no pipeline in {folder}", MISUSED)
        if not case_files(folder):
            raise CommandError(
                f"{folder} has no cases: write tests/NAME.yml (docs/pipelines/testing.md has an example)", MISUSED
            )
        return [folder]
    here = Path()
    if (here / FILE_NAME).is_file():
        return [here]
    found = sorted(one.parent for one in Path(options.folder).glob(f"*/{FILE_NAME}") if case_files(one.parent))
    if not found:
        raise CommandError(f"no pipeline in {options.folder} has cases (tests/*.yml)", MISUSED)
    return found


@contextmanager
def _spark(options: argparse.Namespace) -> Iterator[tuple[SparkSession, Path]]:
    """Spark, and a folder for its output; both are removed at the end."""
    from ottla.spark.pipelines.session import end_session, new_session

    with tempfile.TemporaryDirectory(prefix="ottla-cases-") as name:
        started_at = time.monotonic()
        if sys.stderr.isatty():
            notice(f"starting Spark on {options.master} ...")
        spark = new_session("ottla-test", Path(name) / "spark.log", master=options.master, is_short=True)
        try:
            notice(f"Spark started in {time.monotonic() - started_at:.1f} s")
            yield spark, Path(name)
        finally:
            end_session(spark)


def _chosen(options: argparse.Namespace, folders: list[Path]) -> dict[Path, list[Case]]:
    """The cases of each pipeline that are to be run."""
    from ottla.spark.pipelines.cases import load_cases

    cases = {folder: load_cases(folder, options.pattern) for folder in folders}
    if not any(cases.values()):
        raise CommandError(f"no case has {options.pattern!r} in its name or file", MISUSED)
    return cases


def _run_all(options: argparse.Namespace, cases: dict[Path, list[Case]], spark: SparkSession, workspace: Path) -> int:
    from ottla.spark.pipelines.case_run import CaseRunner

    results: list[tuple[str, CaseResult]] = []
    started_at = time.monotonic()
    for folder, chosen in cases.items():
        name = folder.resolve().name
        with tempfile.TemporaryDirectory(dir=workspace) as own:
            runner = CaseRunner(folder, spark, Path(own), dict(options.variables))
            if options.output == TABLE and chosen:
                print(f"{name}: {len(chosen)} case{'' if len(chosen) == 1 else 's'}", flush=True)
            for result in runner.run(chosen):
                results.append((name, result))
                if options.output == TABLE:
                    print("\n".join(_lines(result)), flush=True)
    failed = sum(not result.is_passed for _, result in results)
    if options.junit:
        Path(options.junit).write_text(junit(results), encoding="utf-8")
    if options.output != TABLE:
        write_document(options.output, [_document(name, result) for name, result in results])
    else:
        seconds = time.monotonic() - started_at
        count = "1 case" if len(results) == 1 else f"{len(results)} cases"
        print(f"{count}: {len(results) - failed} passed, {failed} failed, in {seconds:.1f} s")
    return FAILED if failed else 0


def _lines(result: CaseResult) -> list[str]:
    mark = "ok  " if result.is_passed else "FAIL"
    return [
        f"  {mark} {printable(result.case.name)}  ({result.seconds:.1f} s)",
        *(f"         {printable(line)}" for line in result.lines),
    ]


def _document(pipeline: str, result: CaseResult) -> dict[str, Any]:
    return {
        "pipeline": pipeline,
        "file": str(result.case.file),
        "case": result.case.name,
        "passed": result.is_passed,
        "seconds": round(result.seconds, 3),
        "differences": result.lines,
    }


def junit(results: list[tuple[str, CaseResult]]) -> str:
    """Results as JUnit XML, which build servers show."""
    from xml.etree import ElementTree

    root = ElementTree.Element("testsuites")
    for name in dict.fromkeys(name for name, _ in results):
        own = [result for other, result in results if other == name]
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=name,
            tests=str(len(own)),
            failures=str(sum(not one.is_passed for one in own)),
            time=f"{sum(one.seconds for one in own):.3f}",
        )
        for one in own:
            case = ElementTree.SubElement(
                suite,
                "testcase",
                classname=f"{name}.{one.case.file.stem}",
                name=one.case.name,
                time=f"{one.seconds:.3f}",
            )
            if not one.is_passed:
                failure = ElementTree.SubElement(case, "failure", message=printable(one.lines[0]))
                failure.text = printable("\n".join(one.lines))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


# --- recording


def _record(options: argparse.Namespace, existing_folder: Folder, opened: Opened) -> int:
    """Make a case of what topics have, with what the pipeline makes of it now as what is expected."""
    from ottla.spark.pipelines import recording
    from ottla.spark.pipelines.case_run import CaseRunner
    from ottla.spark.pipelines.cases import Given
    from ottla.spark.pipelines.masking import Mask
    from ottla.spark.pipelines.pipeline_file import load_pipeline
    from ottla.spark.pipelines.variables import Unresolved

    if options.name is None:
        raise CommandError("--record needs the name of a pipeline", MISUSED)
    if not 1 <= options.count <= recording.MAX_COUNT:
        raise CommandError(f"--count is between 1 and {recording.MAX_COUNT}", MISUSED)
    folder, options.state = existing_folder(options), None
    pipeline = load_pipeline(folder, Unresolved(dict(options.variables)))
    fields = [one.strip() for text in options.mask for one in text.split(",") if one.strip()]
    sources = recording.chosen_sources(pipeline, options.record, is_masked=not options.no_mask)
    _, state, connection = opened(options)
    mask = None if options.no_mask else Mask(fields, recording.mask_key(state.folder))
    given = {}
    for source in sources:
        records = recording.newest_records(connection, source.topics, options.count)
        given[source.name] = [recording.row_of(one, mask) for one in records]
        notice(f"{source.name}: {len(records)} records of {source.place}")
    with _spark(options) as (spark, workspace):
        made, trial = CaseRunner(folder, spark, workspace, dict(options.variables)).trial({})
        batch = {name: Given(tuple(rows)) for name, rows in given.items()}
        outcome = trial.run([batch], [flow.name for flow in made.flows])
    path = recording.new_file(folder)
    name = f"recorded {time.strftime('%Y-%m-%d %H:%M:%S')}"
    recording.write_case(path, recording.case_document(name, given, outcome))
    print(f"made {path}: read it before it is shared. What it expects is what the pipeline does now")
    if mask is not None:
        print(f"masked: {', '.join(sorted(mask.used)) or 'nothing'}")
        if mask.suspicious:
            print(f"not masked, and perhaps about people: {', '.join(sorted(mask.suspicious))}")
    return 0


# --- watching


def _watch(options: argparse.Namespace, folders: list[Path], spark: SparkSession, workspace: Path) -> int:
    """Run, and again after each change, until Ctrl-C. Errors are shown; the next change may fix them."""
    from ottla.spark.pipelines.definition import PipelineError

    changed = folders
    while True:
        seen = {folder: watched(folder) for folder in folders}
        try:
            _run_all(options, _chosen(options, changed), spark, workspace)
        except (PipelineError, CommandError) as error:
            notice(str(error))
        notice("waiting for a change; Ctrl-C ends")
        while all(seen[folder] == watched(folder) for folder in folders):
            time.sleep(WATCH_EVERY_S)
        changed = [folder for folder in folders if seen[folder] != watched(folder)]
        print(flush=True)


def watched(folder: Path) -> dict[str, tuple[int, int]]:
    """The files on which a pipeline depends, without those that runs and editors leave behind."""
    found: dict[str, tuple[int, int]] = {}
    for root, folders, files in os.walk(folder):
        folders[:] = [one for one in folders if not one.startswith((".", "__pycache__"))]
        for name in files:
            if name.startswith(".") or name.endswith(("~", ".pyc")):
                continue
            try:
                about = os.stat(os.path.join(root, name))
            except OSError:
                continue
            found[os.path.join(root, name)] = (about.st_mtime_ns, about.st_size)
            if len(found) >= MAX_WATCHED:
                return found
    return found
