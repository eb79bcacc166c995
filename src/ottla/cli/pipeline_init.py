"""`ottla pipeline init NAME` makes a folder with a pipeline to begin with."""

from __future__ import annotations

import argparse
from pathlib import Path

from ottla.cli.session import MISUSED, CommandError

PIPELINE_YML = """\
# {name}: what comes in, what is expected of it, where it goes. 'ottla pipeline dry-run {name}' checks it.

sources:
  events:
    topic: events                   # or files: FOLDER, jdbc: URL with table: NAME, delta: FOLDER, iceberg: SPACE.TABLE
    format: json                    # json, csv, string, raw; avro and protobuf with 'schema: FILE' or a registry
    schema: id bigint, name string, amount double
    expect:
      has an id: {{rule: id is not null, action: quarantine}}     # warn, drop, quarantine, fail
      amount is positive: {{rule: amount > 0, action: drop}}

flows:
  totals:                           # the view of transformations/totals.sql
    topic: totals                   # or files: FOLDER, jdbc: URL with table: NAME, delta: FOLDER, iceberg: SPACE.TABLE
    key: name
    mode: update                    # each new value of a group; in tables and databases it replaces the old one
    config: {{cleanup.policy: compact}}   # the topic keeps the last value of each key, and 'refresh' can replace it

# A table of all events beside the topic, and records with a registered schema:
#
#   history:
#     from: events
#     delta: tables/events          # or iceberg: shop.events
#     partition_by: [name]
#     compact_every: 100            # batches; 'ottla pipeline compact {name}' does it at once
#     evolve: true                  # new columns are added to the table
#
#   registered:
#     from: events
#     topic: events.avro
#     format: avro                  # the schema of the columns is registered as events.avro-value
#
# registry:
#   url: http://127.0.0.1:8081
#   user: ${{REGISTRY_USER:-}}
#   password: ${{REGISTRY_PASSWORD:-}}
"""
TOTALS_SQL = "select name, count(*) as events, sum(amount) as amount\nfrom events\ngroup by name\n"

TOTALS_CASES = """\
# 'ottla pipeline test {name}' runs these cases on a local Spark, without a broker.
cases:
  amounts are added by name, and an event without an id becomes a letter:
    given:
      events:
        - '{{"id": 1, "name": "alice", "amount": 2.5}}'
        - '{{"id": 2, "name": "alice", "amount": 1.5}}'
        - '{{"id": 3, "name": "bob", "amount": -1}}'
        - '{{"name": "bob", "amount": 1}}'
    expect:
      totals:
        - {{name: alice, events: 2, amount: 4.0}}
    letters: [{{source: events, rule: has an id}}]
"""


def init(options: argparse.Namespace, folder: Path) -> int:
    """Make a pipeline's folder with an example."""
    from ottla.spark.pipelines.values import PIPELINE_NAME

    if not PIPELINE_NAME.fullmatch(folder.resolve().name):
        raise CommandError(
            f"{folder.resolve().name!r} may have letters, digits, '.', '_' and '-' only: topics are named after it",
            MISUSED,
        )
    if (folder / "pipeline.yml").exists():
        raise CommandError(f"{folder / 'pipeline.yml'} is there already: it is left as it is", MISUSED)
    (folder / "transformations").mkdir(parents=True, exist_ok=True)
    (folder / "pipeline.yml").write_text(PIPELINE_YML.format(name=folder.name))
    (folder / "transformations" / "totals.sql").write_text(TOTALS_SQL)
    (folder / "tests").mkdir(exist_ok=True)
    (folder / "tests" / "totals.yml").write_text(TOTALS_CASES.format(name=folder.name))
    (folder / ".gitignore").write_text(".state/\n")
    print(f"made {folder}: edit pipeline.yml, transformations/ and tests/, then 'ottla pipeline test {options.name}'")
    return 0
