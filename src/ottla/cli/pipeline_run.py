"""`ottla pipeline run` and `dry-run`: starts Spark and shows what the start waits for."""

from __future__ import annotations

import argparse
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.cli import pipeline_observers
from ottla.cli.output import duration_text, notice
from ottla.cli.pipeline_changes import show_plan
from ottla.cli.pipeline_status import ProgressDisplay
from ottla.cli.session import INTERRUPTED

if TYPE_CHECKING:
    from ottla.spark.pipelines.connection import Connection
    from ottla.spark.pipelines.definition import Pipeline
    from ottla.spark.pipelines.run import PipelineRun
    from ottla.spark.pipelines.state import PipelineState

WAITED_LINE_S = 10.0


class Waiting:
    """What a command waits for, and for how long: one line that counts on a terminal, a line now and then elsewhere.
    It keeps a stderr of its own, since Spark's is a file while it starts."""

    def __init__(self, line: Callable[[str], str] | None = None) -> None:
        self._out = os.fdopen(os.dup(2), "w")
        self._is_terminal = self._out.isatty() and line is None
        self._line = line
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._text = ""
        self._since = self._shown_at = 0.0
        self._thread = threading.Thread(target=self._count, daemon=True)

    def __enter__(self) -> Waiting:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        self._out.close()

    def end(self) -> None:
        """Show no further line."""
        if not self._ended.is_set():
            self._ended.set()
            self._thread.join()
            self._erase()

    def say(self, text: str) -> None:
        """Wait for something else from now on."""
        with self._lock:
            if self._ended.is_set():
                return
            self._erase()
            self._text, self._since = text, time.monotonic()
            self._show("")

    def _count(self) -> None:
        while not self._ended.wait(1.0):
            with self._lock:
                now = time.monotonic()
                if self._text and (self._is_terminal or now - self._shown_at >= WAITED_LINE_S):
                    self._show(f" {duration_text(int(now - self._since) * 1000)}")

    def _show(self, waited: str) -> None:
        start, end = ("\r\x1b[K", "") if self._is_terminal else ("", "\n")
        text = f"{self._text} ...{waited}"
        self._out.write(f"{start}{text if self._line is None else self._line(text)}{end}")
        self._out.flush()
        self._shown_at = time.monotonic()

    def _erase(self) -> None:
        if self._is_terminal and self._text:
            self._out.write("\r\x1b[K")
            self._out.flush()


def spark_session(options: argparse.Namespace, pipeline: Pipeline, state: PipelineState, connection: Connection) -> Any:
    """Starts Spark after the broker has answered and has the topics: the answer takes no time, and without it there is
    nothing to do."""
    from ottla.spark.pipelines.session import new_session
    from ottla.spark.pipelines.topics import check_topics

    with Waiting(pipeline_observers.wait_line(options, pipeline.name)) as waiting:
        if pipeline.uses_topics:
            waiting.say(f"waiting for the broker at {connection.bootstrap_servers}")
            with connection.admin() as admin:
                if options.command == "dry-run":
                    admin.connect()
                admin.list_topics()
            check_topics(pipeline, connection, makes_missing=False)
        waiting.say(f"starting Spark on {options.master}")
        return new_session(
            f"ottla-{pipeline.name}",
            state.log,
            master=options.master,
            settings=pipeline.spark,
            packages=pipeline.packages,
            jars=[pipeline.path(jar) for jar in pipeline.jars],
            is_short=getattr(options, "once", True),
        )


def dry_run(options: argparse.Namespace, pipeline: Pipeline, state: PipelineState, connection: Connection) -> int:
    from ottla.spark.pipelines.session import end_session

    spark = spark_session(options, pipeline, state, connection)
    try:
        from ottla.spark.pipelines.run import PipelineRun

        run = PipelineRun(pipeline, spark, state, connection)
        with Waiting() as waiting:
            run.doing = waiting.say
            run.prepare(makes_topics=False)
            run.check_databases()
        columns, changes = run.columns(), run.changes()
        poison = {flow.name: run.poison_after(flow) for flow in pipeline.flows}
    finally:
        end_session(spark)
    rows = [
        {
            "flow": flow.name,
            "from": flow.reads,
            "target": flow.target,
            "columns": columns[flow.name],
            "poison": poison[flow.name],
        }
        for flow in pipeline.flows
    ]
    return show_plan(options.output, pipeline.name, rows, changes)


class Signals:
    """Ctrl-C and SIGTERM: until the flows run they interrupt what is being waited for, then they end the flows."""

    def __init__(self) -> None:
        self.stopped = threading.Event()
        self.hurried = threading.Event()
        """A second signal: the batches that are under way are not waited for."""
        self.is_running = False
        self._number = signal.SIGTERM
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)

    def _stop(self, number: int, _: object) -> None:
        is_first = not self.stopped.is_set()
        self._number = signal.Signals(number)
        self.stopped.set()
        if not is_first:
            self.hurried.set()
        if is_first and not self.is_running:
            raise KeyboardInterrupt

    @property
    def exit_code(self) -> int:
        return INTERRUPTED if self.stopped.is_set() and self._number == signal.SIGINT else 0


def run(options: argparse.Namespace, pipeline: Pipeline, state: PipelineState, connection: Connection) -> int:
    from ottla.spark.pipelines.session import end_session

    signals = Signals()
    state.acquire()
    spark, observers, ended = None, None, None
    try:
        observers = pipeline_observers.Observers(options, pipeline, connection)
        spark = spark_session(options, pipeline, state, connection)
        from ottla.spark.pipelines.run import PipelineRun
        from ottla.spark.pipelines.run_loop import run_pipeline

        run = PipelineRun(pipeline, spark, state, connection)
        is_logged = options.log_format == pipeline_observers.JSON_LINES
        display = ProgressDisplay(is_silent=is_logged)
        try:
            with Waiting(pipeline_observers.wait_line(options, pipeline.name)) as waiting:
                run.doing = lambda text: display.say(text) if signals.is_running else waiting.say(text)

                def show(run: PipelineRun) -> None:
                    signals.is_running = True
                    waiting.end()
                    display.show(run)
                    observers.look(run)

                run_pipeline(
                    run, state, signals.stopped, show, is_once=options.once,
                    stop_timeout_s=pipeline.stop_timeout_ms / 1000, hurried=signals.hurried,
                )  # fmt: skip
        finally:
            ended = state.read_status()
            display.end(run, options.output)
    except KeyboardInterrupt:
        notice("stopped before the flows ran")
    finally:
        signals.is_running = True
        if observers is not None:
            observers.end(ended)
        if spark is not None:
            end_session(spark)
        state.release()
    return signals.exit_code
