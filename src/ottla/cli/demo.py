"""`ottla demo`: a broker of its own, orders that come in by topic and by file, the pipeline `orders` on Spark, and what
it made of them. Installs what is missing and removes its data when it ends."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.cli.extras import CONSOLE, missing, need
from ottla.cli.output import write_table
from ottla.cli.session import CommandError, command_parser, guarded
from ottla.cli.started_as import command

if TYPE_CHECKING:
    from ottla.spark.pipelines.run import PipelineRun

COMMAND = "ottla demo"
REPOSITORY = Path(__file__).resolve().parents[3]
LOCK = REPOSITORY / "requirements-spark.lock"
SHIPPED_PIPELINE = Path(__file__).with_name("demo_pipeline")
"""The copy of a checkout's pipelines/orders in a wheel (setup.py)."""
PIPELINE = SHIPPED_PIPELINE if SHIPPED_PIPELINE.is_dir() else REPOSITORY / "pipelines" / "orders"
JAVA_PACKAGES = ("openjdk-17-jre-headless", "openjdk-21-jre-headless")
READY_TIMEOUT_S = 60.0
CONSOLE_TIMEOUT_S = 10.0
ENOUGH_TIMEOUT_S = 240.0
FEED_S = 12.0
FILE_COUNT = 4
LETTERS_SHOWN = 6
ITEMS = {"tea": 3.5, "ink": 9.99, "paper": 4.2, "lamp": 39.0, "chair": 129.0, "map": 12.5}
EXAMPLES = """\
  ottla demo                  about a minute, and a few more the first time: Spark is installed
  ottla demo --orders 50000
"""


def parser() -> argparse.ArgumentParser:
    made = command_parser(
        COMMAND, "A broker, orders by topic and by file, a pipeline on Spark with rules and dead letters.", EXAMPLES
    )
    made.add_argument("--orders", type=int, default=2000, metavar="N", help="how many orders come in (2000)")
    made.add_argument("--no-install", action="store_true", help="install nothing: say what is missing instead")
    return made


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    return guarded(COMMAND, lambda: _demo(options))


def _demo(options: argparse.Namespace) -> int:
    began_at = time.monotonic()
    _install_spark(options.no_install)
    _install_java(options.no_install)
    if not options.no_install:
        with suppress(CommandError):  # the demo is whole without the console, too
            need("console", CONSOLE, "the console needs")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ottla-demo-")))
        broker = stack.enter_context(_broker(folder))
        is_complete = _run(options.orders, folder, broker)
    if is_complete:
        _say(f"\nThat took {time.monotonic() - began_at:.0f} s. The broker and its folder are gone. What to try next:")
        print(f"  the pipeline that ran      {_near(PIPELINE)}/pipeline.yml")
        print(f"  a broker that stays        {command()} start --console-port 8080    with the web console")
        print(f"  a pipeline of your own     {command()} pipeline init mine")
    return 0 if is_complete else 130


def _say(text: str) -> None:
    print(text, flush=True)


def _near(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


# --- what is missing


def _install_spark(is_forbidden: bool) -> None:
    from ottla.spark.pipelines.session import has_spark

    if has_spark():
        return
    wanted = ["--requirement", str(LOCK)] if LOCK.is_file() else ["ottla[spark]"]
    install = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", *wanted]
    if is_forbidden:
        raise CommandError(f"Spark is not installed: {shlex.join(install)}")
    _install("Spark (about 500 MB, once)", install)
    importlib.invalidate_caches()
    if not has_spark():
        raise CommandError(f"Spark was installed, but {sys.executable} cannot import it")


def _install_java(is_forbidden: bool) -> None:
    from ottla.spark.pipelines.definition import PipelineError
    from ottla.spark.pipelines.session import JAVA_ADVICE, check_java, java

    if java() is not None:
        try:
            check_java()
        except PipelineError as error:
            raise CommandError(str(error)) from None
        return
    apt = shutil.which("apt-get")
    sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
    is_allowed = not sudo or (shutil.which("sudo") is not None and _succeeds([*sudo, "true"]))
    if is_forbidden or apt is None or not is_allowed:
        raise CommandError(JAVA_ADVICE)
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    _install("the list of packages", [*sudo, apt, "update"], quiet)
    package = next((one for one in JAVA_PACKAGES if _succeeds(["apt-cache", "show", one])), JAVA_PACKAGES[0])
    _install(f"Java ({package})", [*sudo, apt, "install", "--yes", "--no-install-recommends", package], quiet)
    if java() is None:
        raise CommandError(JAVA_ADVICE)


def _succeeds(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _install(what: str, installer: list[str], more: dict[str, str] | None = None) -> None:
    """Run an installer and show the seconds; its last lines are shown if it fails."""
    began_at = time.monotonic()
    is_terminal = sys.stderr.isatty()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(installer, stdout=output, stderr=output, env={**os.environ, **(more or {})})
        _say(f"installing {what} ...")
        try:
            while process.poll() is None:
                if is_terminal:
                    sys.stderr.write(f"\r{time.monotonic() - began_at:.0f} s ")
                    sys.stderr.flush()
                try:
                    process.wait(1)
                except subprocess.TimeoutExpired:
                    continue
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
            if is_terminal:
                sys.stderr.write("\r\x1b[K")
        if process.returncode:
            output.seek(0)
            said = output.read().decode(errors="replace").strip().splitlines()
            raise CommandError("\n  ".join([f"{what} could not be installed: {shlex.join(installer)}", *said[-8:]]))


# --- the broker


@contextmanager
def _broker(folder: Path) -> Iterator[str]:
    """A node on a free port; its address."""
    with (folder / "broker.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "ottla", "start", "--port", "0", "--data", str(folder / "data"), *_console()],
            stdout=log,
            stderr=subprocess.STDOUT,
            process_group=0,  # Ctrl-C is ours to handle
        )
    try:
        address = _address(process, folder / "broker.log")
        _say(f"a broker is ready on {address}; its data is in {folder}, until the end")
        if _console():
            _tell_of_console(process, folder / "broker.log")
        yield address
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _console() -> list[str]:
    """The options that start the web console beside the broker, if its packages and its page (which wheels have) are
    available."""
    page = find_spec("ottla.console")
    is_built = page is not None and page.origin is not None and Path(page.origin).with_name("page").is_dir()
    return ["--console-port", "0"] if is_built and not missing(CONSOLE) else []


def _tell_of_console(process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + CONSOLE_TIMEOUT_S
    while time.monotonic() < end and process.poll() is None:
        if found := re.search(r"console: (http://\S+)", log.read_text(errors="replace")):
            _say(f"the web console shows all of it meanwhile: {found[1]}")
            return
        time.sleep(0.05)


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    end = time.monotonic() + READY_TIMEOUT_S
    while time.monotonic() < end:
        said = log.read_text(errors="replace")
        if " ready on " in said:
            return said.partition(" ready on ")[2].split()[0]
        if process.poll() is not None:
            raise CommandError(f"the broker ended at once:\n{said}")
        time.sleep(0.05)
    raise CommandError(f"the broker was not ready after {READY_TIMEOUT_S:.0f} s:\n{log.read_text(errors='replace')}")


# --- the orders


def orders(count: int, seed: int = 7) -> Iterator[str]:
    """Orders as lines of JSON. Some are not quite right, as in life."""
    chance = random.Random(seed)
    moment = datetime(2026, 11, 16, 8, tzinfo=UTC)
    for number in range(1, count + 1):
        item = chance.choice(list(ITEMS))
        order: dict[str, Any] = {
            "order_id": number,
            "customer_id": chance.randint(1, 8),
            "item": item,
            "quantity": chance.randint(1, 5),
            "price": ITEMS[item],
            "placed_at": (moment + timedelta(seconds=number)).isoformat(),
        }
        fault = chance.random()
        if fault < 0.01:
            order["quantity"] = 0
        elif fault < 0.02:
            order["customer_id"] = None
        elif fault < 0.03:
            order["price"] = -1.0
        elif fault < 0.04:
            order["item"] = "test order"
        line = json.dumps(order)
        yield line[: len(line) // 2] if 0.04 <= fault < 0.05 else line


class Feed:
    """Half of the orders go to the topic, half to files, over a while."""

    def __init__(self, broker: str, folder: Path, count: int) -> None:
        self._lines = list(orders(count))
        self._broker = broker
        self._folder = folder
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._feed, daemon=True)
        self.count = 0
        self.error: BaseException | None = None

    @property
    def is_done(self) -> bool:
        return self.count == len(self._lines)

    @property
    def is_started(self) -> bool:
        return self._thread.ident is not None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self.is_started:
            self._thread.join()

    def _feed(self) -> None:
        from ottla.client.blocking import Producer

        try:
            with Producer(bootstrap_servers=self._broker) as producer:
                half = (len(self._lines) + 1) // 2
                size = max(1, -(-half // FILE_COUNT))
                for number in range(FILE_COUNT):
                    if number and self._stopped.wait(FEED_S / FILE_COUNT):
                        return
                    for line in self._lines[number * size : min((number + 1) * size, half)]:
                        producer.send("orders", line.encode())
                        self.count += 1
                    producer.flush()
                    self._write(number, self._lines[half + number * size : half + (number + 1) * size])
        except Exception as error:
            self.error = error

    def _write(self, number: int, lines: list[str]) -> None:
        """A file that is there at once, and whole."""
        unfinished = self._folder / f".{number}.json"
        unfinished.write_text("".join(line + "\n" for line in lines))
        unfinished.rename(self._folder / f"branch-{number}.json")
        self.count += len(lines)


# --- the pipeline


def _run(count: int, folder: Path, broker: str) -> bool:
    """Feed the pipeline until everything has gone through it; False: it was interrupted."""
    from ottla.cli.pipeline_status import ProgressDisplay
    from ottla.client.blocking import Admin
    from ottla.spark.pipelines.definition import PipelineError
    from ottla.spark.pipelines.pipeline_file import load_pipeline
    from ottla.spark.pipelines.session import end_session, new_session
    from ottla.spark.pipelines.state import PipelineState

    for name in ("input/orders", "output"):
        (folder / name).mkdir(parents=True)
    with Admin(bootstrap_servers=broker) as admin:
        admin.create_topic("orders", 2)
    pipeline = load_pipeline(PIPELINE, {"INPUT": str(folder / "input"), "OUTPUT": str(folder / "output")})
    state = PipelineState(folder / "state")
    stopped = threading.Event()
    interrupted = threading.Event()

    def interrupt(*_: object) -> None:
        interrupted.set()
        stopped.set()

    feed = Feed(broker, folder / "input" / "orders", count)
    display = ProgressDisplay()
    end = time.monotonic() + ENOUGH_TIMEOUT_S

    def watch(run: PipelineRun) -> None:
        display.show(run)
        if not feed.is_started and run.is_started:
            feed.start()
        if feed.error is not None or time.monotonic() > end or (feed.is_done and is_through(run, count)):
            stopped.set()

    _say("starting Spark (this is most of the minute) ...")
    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    spark = None
    try:
        spark = new_session("ottla-demo", state.log, settings=pipeline.spark, is_short=True)
        from ottla.spark.pipelines.connection import Connection
        from ottla.spark.pipelines.run import PipelineRun
        from ottla.spark.pipelines.run_loop import run_pipeline

        _say(f"{count} orders come in by topic and by file; the pipeline 'orders' checks them:\n")
        run = PipelineRun(pipeline, spark, state, Connection(broker))
        if not interrupted.is_set():
            run_pipeline(run, state, stopped, watch)
        if not interrupted.is_set():
            display.end(run, "table")
            _check(run, feed, count)
            _tell(spark, pipeline, broker, folder)
    except PipelineError as error:
        raise CommandError(str(error)) from None
    finally:
        feed.stop()
        if spark is not None:
            end_session(spark)
        for number, handler in before.items():
            signal.signal(number, handler)
    return not interrupted.is_set()


def is_through(run: PipelineRun, count: int) -> bool:
    """Whether all orders have been judged, and the kept ones are in the table."""
    kept = sum(one.kept for one in run.counts)
    is_judged = sum(one.rows for one in run.counts) >= count
    return is_judged and run.flows["accepted"].rows_out >= kept and run.flows["table"].rows_out >= kept


def _check(run: PipelineRun, feed: Feed, count: int) -> None:
    if feed.error is not None:
        raise CommandError(f"the orders could not be sent: {feed.error}")
    if not is_through(run, count):
        raise CommandError(f"the pipeline was not through after {ENOUGH_TIMEOUT_S:.0f} s: is the machine very busy?")


def _tell(spark: Any, pipeline: Any, broker: str, folder: Path) -> None:
    """Where to look afterwards."""
    from pyspark.sql import functions as F

    from ottla.spark.pipelines.connection import Connection
    from ottla.spark.pipelines.redrive import read_letters

    table = spark.read.parquet(str(folder / "output" / "orders"))
    sales = table.selectExpr("country", "amount").groupBy("country")
    found = sales.agg(F.count("*"), F.round(F.sum("amount"), 2)).orderBy("country").collect()
    _say("\nThe table (Parquet, by country):\n")
    write_table(("COUNTRY", "ORDERS", "SALES"), [tuple(row) for row in found])
    letters = list(read_letters(pipeline, Connection(broker)))
    _say(f"\n{len(letters)} orders went to the topic {pipeline.dead_letters}, with the reason; one of each kind:\n")
    kinds = {letter.rule: letter for letter in letters}
    rows = [(letter.rule, letter.source, (letter.value or b"").decode()[:70]) for letter in kinds.values()]
    write_table(("RULE", "FROM", "ORDER"), rows[:LETTERS_SHOWN])
