"""Why a pipeline cannot run or ended, each kind with the exit code that a scheduler sees."""

from __future__ import annotations


class PipelineError(Exception):
    """A pipeline that cannot run as it is written; the message is for its author. The exit code tells a scheduler the
    kind of failure."""

    exit_code = 2


class Unavailable(PipelineError):
    """A broker, a database, a registry or a store does not answer: the same run may succeed later."""

    exit_code = 3


class TakenOver(Unavailable):
    """A later run has begun with the same state."""


class BadData(PipelineError):
    """The data ended the pipeline: a row that a rule forbids, or records that are lost."""

    exit_code = 4


class RuleBroken(BadData):
    """A row that a rule with the action `fail` forbids: its author wants the flow to end."""


class FlowFailed(PipelineError):
    """A flow failed for a reason of none of these kinds."""

    exit_code = 1
