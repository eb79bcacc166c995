"""The exit codes of what runs on Spark, and its errors as one sentence without secrets.

A scheduler can tell them apart: 2 the file or the command has to be changed, 3 the same command may succeed later,
4 the data stopped it, 1 anything else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.cli.session import FAILED, MISUSED, CommandError, explained

if TYPE_CHECKING:
    from ottla.spark.pipelines.redaction import Redaction

AWAY = 3
EXIT_CODES = """\
exit codes:
  0 done, or stopped with 'ottla pipeline stop'    1 anything else
  2 the file, its SQL or the command is wrong      3 a broker, database, registry or store does not answer: try again
  4 the data stopped it (action: fail, unparsable: fail, records that are lost)              130 Ctrl-C
"""


def command_error(error: Exception, name: str, broker: str, redacted: Redaction) -> CommandError:
    """The message for an error, and its exit code. A bug is shown with its traceback."""
    from ottla.client.errors import KafkaError
    from ottla.converters.errors import ConverterError, RegistryUnreachable
    from ottla.spark.pipelines.definition import PipelineError

    if isinstance(error, CommandError):
        return error
    if isinstance(error, PipelineError):
        text, code = str(error), error.exit_code
    elif isinstance(error, ConverterError):
        text, code = str(error), AWAY if isinstance(error, RegistryUnreachable) else MISUSED
    elif isinstance(error, KafkaError):
        text, code = explained(error, broker), _kafka_code(error)
        if broker not in text and code == AWAY:
            text = f"the broker at {broker} does not answer: {text}"
    elif isinstance(error, OSError):
        text, code = str(error), FAILED
    else:
        import traceback

        text, code = f"a bug of Ottla:\n{''.join(traceback.format_exception(error))}", FAILED
    return CommandError(redacted(f"{name}: {text}" if name else text), code)


def _kafka_code(error: Exception) -> int:
    from ottla.client.errors import AuthenticationError, AuthorizationError, ConfigError, is_retriable

    if isinstance(error, AuthenticationError | AuthorizationError | ConfigError):
        return MISUSED
    return AWAY if is_retriable(error) else FAILED
