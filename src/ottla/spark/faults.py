"""Where a test may kill or pause the driver: between every two steps of a commit. Nothing happens without the
environment variable, which names the step, the batch and a folder: `decided:2:/tmp/x`. The folder's file `pid` names
the process to kill (`self` is the one that reads it; `pause` stops that one until SIGCONT), and its file `killed` is
made when that is done, once."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

FAULT = "OTTLA_SPARK_FAULT"
PAUSE = "pause"
LAST_MOMENTS_SECONDS = 60


def is_armed() -> bool:
    return FAULT in os.environ


def fault_point(step: str, batch_id: int) -> None:
    given = os.environ.get(FAULT)
    if given is None:
        return
    wanted_step, wanted_batch, folder = given.split(":", 2)
    if (step, str(batch_id)) != (wanted_step, wanted_batch):
        return
    try:
        (Path(folder) / "killed").open("x").close()
    except FileExistsError:
        return
    victim = (Path(folder) / "pid").read_text()
    if victim == PAUSE:
        os.kill(os.getpid(), signal.SIGSTOP)
        return
    os.kill(os.getpid() if victim == "self" else int(victim), signal.SIGKILL)
    time.sleep(LAST_MOMENTS_SECONDS)
