"""What Kafka's console tools work out without a broker: lines, moments, durations, dates, figures."""

from __future__ import annotations

import re
from base64 import b64encode
from pathlib import Path

import pytest

from ottla.cli.kafka.configs import shown
from ottla.cli.kafka.connection import known_settings
from ottla.cli.kafka.consumer_perf_test import format_date
from ottla.cli.kafka.deserializers import deserializer
from ottla.cli.kafka.line_reader import InputRecord, LineReader, Lines
from ottla.cli.kafka.message_formatters import DEFAULT, formatter
from ottla.cli.kafka.offset_resets import format_csv, parse_duration_ms, parse_moment, read_csv
from ottla.cli.kafka.options import ToolError
from ottla.cli.kafka.performance import Latencies, fixed, ratio
from ottla.cli.kafka.storage_format import scram_record, told_bootstrap
from ottla.client.config import AdminConfig
from ottla.client.core.fetching import ConsumerRecord, LogAppendTimeRecord
from ottla.client.core.share_fetching import ShareRecord
from ottla.client.metadata import TopicPartition


def test_unknown_settings_are_ignored_and_known_unsupported_ones_are_kept() -> None:
    given = {"client.id": "me", "my.own": "1", "ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}
    assert list(known_settings(AdminConfig, given)) == ["client.id", "ssl.cipher.suites"]


def test_lines_end_as_javas_do_wherever_the_input_is_cut() -> None:
    text = b"one\ntwo\r\n\rthree"
    for cut in range(len(text)):
        lines = Lines()
        pieces = [text[:cut], text[cut:]] if cut else [text]
        found = [line for piece in pieces for line in lines.feed(piece)]
        assert [*found, *lines.feed(b"")] == [b"one", b"two", b"", b"three"]


def test_a_line_has_headers_a_key_and_a_value() -> None:
    reader = LineReader({"parse.key": "true", "parse.headers": "true", "null.marker": "NULL"})
    assert reader.read(b"a:1,b:NULL,\tk\tv\tw") == InputRecord(b"k", b"v\tw", (("a", b"1"), ("b", None)))
    assert reader.read(b"NULL\tNULL\tNULL") == InputRecord(None, None, ())
    with pytest.raises(ToolError, match="No key separator found on line number 3"):
        reader.read(b"a:1\tno key")


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("P1D", 86_400_000), ("PT1H30M", 5_400_000), ("PT1.5S", 1_500), ("-PT-0.001S", 1), ("p2dt3s", 172_803_000)],
)
def test_durations_are_javas(text: str, milliseconds: int) -> None:
    assert parse_duration_ms(text) == milliseconds


@pytest.mark.parametrize("text", ["", "P", "PT", "1D", "P1DT", "P1Y"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ToolError, match="Text cannot be parsed to a Duration"):
        parse_duration_ms(text)


def test_moments_are_utc_unless_they_name_a_zone() -> None:
    assert parse_moment("1970-01-02T00:00:00.001") == 86_400_001
    assert parse_moment("1970-01-01T01:00:00.000+01:00") == parse_moment("1970-01-01T01:00:00.000+01") == 0
    with pytest.raises(ToolError, match="Unparseable date"):
        parse_moment("1970-13-01T00:00:00.000")


def test_exported_offsets_are_read_back(tmp_path: Path) -> None:
    planned = {"g": {TopicPartition("a-topic-with-quite-a-long-name", 1): 5}}
    for has_group in (False, True):
        file = tmp_path / f"plan-{has_group}.csv"
        file.write_text(format_csv(planned, has_group=has_group))
        assert read_csv(str(file), ["g"] if not has_group else ["g", "h"]) == planned


def test_numbers_are_shown_by_their_deserializers() -> None:
    package = "org.apache.kafka.common.serialization."
    shown = {
        "LongDeserializer": (b"\xff" * 8, "-1"),
        "DoubleDeserializer": (b"\x41\x63\x12\xd0\x00\x00\x00\x00", "1.0E7"),
        "FloatDeserializer": (b"\x3d\xcc\xcc\xcd", "0.1"),
        "BooleanDeserializer": (b"\x01", "true"),
        "BytesDeserializer": (b"a\\\x00", "a\\x5C\\x00"),
    }
    for name, (data, text) in shown.items():
        made = deserializer(package + name)
        assert made is not None
        assert made(data) == text
    assert deserializer("com.example.Mine") is None


def test_a_record_shows_whose_its_timestamp_is() -> None:
    record = LogAppendTimeRecord("t", 0, 7, 99, None, b"v", (("h", None),))
    show = formatter(DEFAULT, {"print.timestamp": "true", "print.headers": "true", "print.key": "TRUE "})
    assert show(record) == b"LogAppendTime:99\th:null\tnull\tv\n"


def test_only_a_record_of_a_share_group_shows_how_often_it_was_delivered() -> None:
    show = formatter(DEFAULT, {"print.delivery": "true", "print.offset": "true"})
    assert show(ShareRecord("t", 0, 7, 5, None, b"v", (), 3)) == b"Offset:7\tDelivery:3\tv\n"
    assert show(ConsumerRecord("t", 0, 7, 5, None, b"v", ())) == b"Offset:7\tDelivery:NOT_PRESENT\tv\n"


def test_dates_follow_javas_patterns() -> None:
    at_ms = 1_700_000_000_007
    assert re.fullmatch(r"2023-11-1[45] \d\d:\d\d:20:007", format_date("yyyy-MM-dd HH:mm:ss:SSS", at_ms))
    assert re.fullmatch(r"23 o'clock [A-Z][a-z]{2} Nov (AM|PM)", format_date("yy 'o''clock' EEE MMM a", at_ms))
    with pytest.raises(ToolError):
        format_date("Q", at_ms)


def test_figures_of_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    latencies = Latencies(4, reporting_interval_ms=10**9)
    for latency_ms in (1, 2, 3, 10):
        latencies.record(latency_ms, 1024, 0)
    latencies.show_total()
    line = capsys.readouterr().out
    assert re.fullmatch(
        r"4 records sent, \S+ records/sec \(\S+ MB/sec\), 4\.00 ms avg latency, 10\.00 ms max latency, "
        r"3 ms 50th, 10 ms 95th, 10 ms 99th, 10 ms 99\.9th\.\n",
        line,
    )
    assert (fixed(ratio(1, 0), 2), fixed(ratio(0, 0), 2), fixed(ratio(1, 4), 3)) == ("Infinity", "NaN", "0.250")


def test_a_scram_credential_of_a_new_cluster_has_the_keys_that_kafkas_tool_makes() -> None:
    record = scram_record("SCRAM-SHA-256=[name=alice,saltedpassword=eA==,salt=eA==,iterations=4096]")
    assert (record.name, record.mechanism, record.salt, record.iterations) == ("alice", 1, b"x", 4096)
    assert record.stored_key.hex() == "c448fb2129d6fd0c1fd42fa699fee3dd048c4d221c1dd46cf8bc8b832f066ce0"
    assert record.server_key.hex() == "a994f5bfda3feb89f6a9bace177d262f1fff24c178d078d6e902da8e2a7866aa"


def test_a_scram_credential_is_read_as_kafka_reads_it() -> None:
    record = scram_record('SCRAM-SHA-512=[name="bob",password="]x=y",saltedpassword=?,]')
    assert (record.name, record.mechanism, record.iterations, len(record.stored_key)) == ("bob", 2, 4096, 64)
    same = scram_record(f"SCRAM-SHA-512=[name=bob,password=]x=y,salt={b64encode(record.salt).decode()}]")
    assert same.stored_key == record.stored_key


@pytest.mark.parametrize(
    "text",
    [
        "SCRAM-SHA-256=[name=alice,password=half,of-the-secret]",
        "SCRAM-SHA-256=[name=alice,saltedpassword=of-the-secret,salt=eA==]",
    ],
)
def test_an_error_does_not_repeat_what_may_be_secret(text: str) -> None:
    with pytest.raises(ToolError) as refused:
        scram_record(text)
    assert "of-the-secret" not in refused.value.message


def test_what_a_new_cluster_begins_with_is_shown_without_its_keys() -> None:
    shown = told_bootstrap([scram_record("SCRAM-SHA-256=[name=alice,password=secret]")], 30)
    assert "salt=[hidden], storedKey=[hidden], serverKey=[hidden], iterations=4096" in shown
    assert "secret" not in shown


def test_arguments_are_repeated_without_what_may_be_secret() -> None:
    given = ["--alter", "--entity-name", "alice", "--add-config", "SCRAM-SHA-256=[password=letmein]"]
    assert shown(given) == "--alter --entity-name alice --add-config [hidden]"
    assert shown(["--add-config=ssl.keystore.password=letmein"]) == "--add-config=[hidden]"
    assert shown(["--add-config=retention.ms=1"]) == "--add-config=retention.ms=1"
