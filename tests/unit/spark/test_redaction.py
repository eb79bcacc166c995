"""Addresses for people, and texts of other programs without the secrets of a pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ottla.spark.pipelines.connection import Connection
from ottla.spark.pipelines.pipeline_file import parse_pipeline
from ottla.spark.pipelines.redaction import Redaction, public_address


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("jdbc:postgresql://db:5432/shop?user=me&password=SECRET", "jdbc:postgresql://db:5432/shop"),
        ("jdbc:postgresql://me:SECRET@db/shop", "jdbc:postgresql://db/shop"),
        ("jdbc:postgresql://a:1,b:2/shop?password=SECRET", "jdbc:postgresql://a:1,b:2/shop"),
        ("jdbc:postgresql://[::1]:5432/shop", "jdbc:postgresql://[::1]:5432/shop"),
        ("jdbc:postgresql:shop?password=SECRET", "jdbc:postgresql:shop"),
        # Which @ ends the user info cannot be known: nothing behind the scheme is shown.
        ("jdbc:postgresql://me:SEC?RET@db/shop", "jdbc:postgresql"),
        ("jdbc:postgresql://db/shop?user=me@home&password=SECRET", "jdbc:postgresql"),
        ("jdbc:sqlserver://db:1433;databaseName=shop;user=me;password=SECRET", "jdbc:sqlserver://db:1433"),
        ("jdbc:oracle:thin:scott/SECRET@//db:1521/shop", "jdbc:oracle://db:1521/shop"),
        ("jdbc:oracle:thin:scott/SECRET@db:1521:SHOP", "jdbc:oracle:db:1521:SHOP"),
        ("jdbc:oracle:thin:@(DESCRIPTION=(PASSWORD=SECRET))", "jdbc:oracle"),
        ("jdbc:mysql://(host=db,password=SECRET)/shop", "jdbc:mysql"),
        ("jdbc:teradata://db/DATABASE=shop,PASSWORD=SECRET", "jdbc:teradata"),
        ("jdbc:other:me:SECRET", "jdbc:other"),
        ("jdbc:derby:/var/shop;password=SECRET", "jdbc:derby:/var/shop"),
        ("jdbc:derby:memory:shop;password=SECRET", "jdbc:derby:memory:shop"),
        ("s3a://key:SECRET@bucket/a/b", "s3a://bucket/a/b"),
        ("s3a://key:SE/CRET@bucket/a", "s3a://"),
        ("s3a://bucket/day=1/*.json", "s3a://bucket/day=1/*.json"),
        ("abfss://container@account.dfs.core.windows.net/a?sig=SECRET", "abfss://container@account.dfs.core.windows.net/a"),
        ("postgresql+psycopg2://me:SECRET@db:5432/catalog?x=SECRET", "postgresql+psycopg2://db:5432/catalog"),
        ("https://SECRET@host/x#SECRET", "https://host/x"),
        ("file:///data/in", "file:///data/in"),
        ("data/in?.json", "data/in?.json"),
    ],
)  # fmt: skip
def test_an_address_for_people_has_no_secret(address: str, public: str) -> None:
    assert public_address(address) == public


def everywhere(secret: str) -> tuple[Any, Connection]:
    """A pipeline with a secret in every place that may have one."""
    jdbc = f"jdbc:postgresql://me:{secret}1@db/shop?password={secret}%202;x={secret}"
    source = {"jdbc": jdbc, "table": "t", "incremental": "id", "options": {"password": f"{secret}3"}}
    document = {
        "registry": {"url": "http://127.0.0.1:8081", "user": "me", "password": f"{secret}4"},
        "spark": {"spark.hadoop.fs.s3a.secret.key": f"{secret}5"},
        "sources": {"a": source, "b": {"files": f"s3a://key:{secret}6@bucket/x", "format": "string"}},
        "flows": {
            "c": {"from": "a", "delta": f"s3a://key:{secret}7@bucket/x", "options": {"secret": f"{secret}8"}},
            "d": {"from": "a", "iceberg": "n.t", "catalog": {"uri": f"postgresql://me:{secret}9@db/x"}},
            "e": {"from": "a", "jdbc": jdbc, "table": "u", "options": {"password": f"{secret}3"}},
        },
    }  # fmt: skip
    settings = {"sasl.jaas.config": f'x.PlainLoginModule required username="me" password="{secret}10";'}
    return parse_pipeline(Path("/tmp/some"), document, {}), Connection("db:9092", settings)


def test_secrets_are_in_no_text_of_a_definition() -> None:
    pipeline, connection = everywhere("hush")
    assert "hush" not in repr(pipeline) + repr(connection)
    assert "hush" not in "".join(flow.target for flow in pipeline.flows)
    assert [source.place for source in pipeline.sources] == ["jdbc:postgresql://db/shop t", "s3a://bucket/x"]


def test_secrets_are_taken_out_of_what_others_say() -> None:
    pipeline, connection = everywhere("hush")
    redacted = Redaction.of(pipeline, connection)
    jdbc = pipeline.sources[0].jdbc
    said = f"No suitable driver found for {jdbc}; connecting as hush1 with 'hush 2', hush3 hush4 hush5, hush10"
    assert redacted(said) == (
        "No suitable driver found for jdbc:postgresql://db/shop; connecting as *** with '***', *** *** ***, ***"
    )
    said = "bad uri postgresql://me:hush9@db/x or s3a://key:hush6@bucket/x or s3a://key:hush7@bucket/y, hush8"
    assert "hush" not in redacted(said)


def test_what_stands_behind_a_name_of_a_secret_is_taken_out_though_it_is_not_known() -> None:
    redacted = Redaction.of(None, None)
    assert redacted('x?user=me&password=hush&y, {"token": "hush", "a": 1} ssl.key.password = hush') == (
        'x?user=me&password=***&y, {"token": ***, "a": 1} ssl.key.password = ***'
    )
    assert redacted("http://me:hush@host/x") == "http://***@host/x"
    assert redacted("mismatched token: 'from', at 12:30 on host:9092") == (
        "mismatched token: 'from', at 12:30 on host:9092"
    )
