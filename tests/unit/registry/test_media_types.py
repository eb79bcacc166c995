from __future__ import annotations

import pytest

from ottla.registry.media_types import MEDIA_TYPE, answer_type, is_body_type


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ([], MEDIA_TYPE),
        (["*/*"], MEDIA_TYPE),
        (["text/html, application/JSON;q=0.9"], "application/json"),
        (["text/html", f"{MEDIA_TYPE}, application/json"], MEDIA_TYPE),
        (["application/vnd.schemaregistry+json; q=0.9"], "application/vnd.schemaregistry+json"),
        ([",;" * 100_000], MEDIA_TYPE),
    ],
)
def test_answers_have_the_type_that_the_client_names_first(accept: list[str], wanted: str) -> None:
    assert answer_type(accept) == wanted


def test_bodies_are_json_or_bytes_and_not_what_any_web_page_may_send() -> None:
    for taken in (MEDIA_TYPE, "application/json; charset=utf-8", "Application/Vnd.SchemaRegistry+json"):
        assert is_body_type(taken)
    for refused in (None, "", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        assert not is_body_type(refused)
