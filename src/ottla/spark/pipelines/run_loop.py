"""How a run goes from its start to its end: its status and history on disk, and the error with which it ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from ottla.client.errors import KafkaError
from ottla.converters.errors import ConverterError
from ottla.spark.pipelines.errors import PipelineError
from ottla.spark.pipelines.history import History
from ottla.spark.pipelines.run import PipelineRun
from ottla.spark.pipelines.state import PipelineState

TICK_S = 0.5


def run_pipeline(
    run: PipelineRun,
    state: PipelineState,
    stopped: threading.Event,
    show: Callable[[PipelineRun], None],
    *,
    is_once: bool = False,
    stop_timeout_s: float = 0.0,
    hurried: threading.Event | None = None,
) -> None:
    """Run to the end, or until it is stopped: then each flow has `stop_timeout_s` for its batch, unless `hurried`.
    PipelineError: what has failed."""
    ended, cause, said = "failed", None, run.doing
    history, started_at = History(state.folder), time.time()

    def doing(text: str) -> None:
        said(text)
        state.write_status(run.status("starting"))

    run.doing = doing
    try:
        run.prepare(is_once=is_once)
        history.begin(run.guard.definition, started_at)
        run.start()
        while run.poll():
            state.check_owner()
            state.write_status(run.status("running"))
            show(run)
            if stopped.wait(TICK_S):
                said(f"batches that are under way end first, at most {stop_timeout_s:g} s; a second signal ends them")
                run.stop(stop_timeout_s, hurried)
                break
            state.check_owner()
        state.check_owner()
        run.end_quality()
        failure = run.failure()
        if failure is not None:
            raise failure
        ended = "stopped" if stopped.is_set() else "done"
    except PipelineError as error:
        cause = run.redacted(str(error))
        raise type(error)(cause) from None
    except (KafkaError, ConverterError) as error:
        cause = run.redacted(str(error))
        raise
    except KeyboardInterrupt:
        ended = "stopped"
        raise
    finally:
        run.stop()
        if not state.is_taken_over:
            state.write_status(run.status(ended, cause))
            history.end(started_at, run.status(ended, cause), ended, cause)
        show(run)
