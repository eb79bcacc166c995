"""`ottla pipeline letters` prints the rows that were put aside, `redrive` sends them through the pipeline again."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ottla.cli.output import JSON, TABLE, notice, write_document

if TYPE_CHECKING:
    from ottla.spark.pipelines.connection import Connection
    from ottla.spark.pipelines.definition import Outline
    from ottla.spark.pipelines.state import PipelineState


def show_letters(options: argparse.Namespace, pipeline: Outline, state: PipelineState, connection: Connection) -> int:
    import json

    from ottla.spark.pipelines.redrive import read_letters

    is_empty = True
    for letter in read_letters(pipeline, connection):
        is_empty = False
        document = letter.to_json()
        if options.output == JSON:
            print(json.dumps(document, ensure_ascii=False))
        elif options.output == TABLE:
            print(f"{letter.place}  {letter.rule}\n  {letter.error}\n  {letter.shown_value}")
        else:
            write_document(options.output, document)
    if is_empty:
        notice(f"{pipeline.dead_letters} has no letters of {pipeline.name}")
    return 0


def redrive_letters(
    options: argparse.Namespace, pipeline: Outline, state: PipelineState, connection: Connection
) -> int:
    from ottla.spark.pipelines.redrive import redrive

    count = redrive(pipeline, state, connection, options.file)
    what = "letters were" if count != 1 else "letter was"
    notice(f"{count} {what} sent back to {pipeline.name}; they go through it when it runs")
    return 0
