"""Bodies: half a million values are refused before they are parsed, and texts are left alone."""

from __future__ import annotations

import json

import pytest
from starlette.exceptions import HTTPException

from litebert.serve import guards
from litebert.serve.guards import MAX_VALUES, parse_body


@pytest.mark.parametrize(
    "value",
    [
        [1] * (MAX_VALUES + 1),
        ["a"] * (MAX_VALUES + 1),
        [{}] * (MAX_VALUES // 2 + 1),
        [[1]] * (MAX_VALUES // 2 + 1),
        {str(i): 0 for i in range(MAX_VALUES + 1)},
    ],
)
def test_too_many_values_are_refused_unparsed(value: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "from_json", lambda body: pytest.fail("it was parsed"))
    for body in (json.dumps({"text": value}), json.dumps({"text": value})[:-2], json.dumps(value)):
        with pytest.raises(HTTPException, match="more than") as refused:
            parse_body(body.encode())
        assert refused.value.status_code == 422


@pytest.mark.parametrize("text", ["a,b[c{" * 40_000, '\\"' * 200_000 + "," * 99_000, "\\" * 200_000 + '"[,' * 99_999])
def test_what_stands_in_texts_is_not_counted(text: str) -> None:
    body = {"text": [text, "é[,{"], "top_k": 3}
    assert parse_body(json.dumps(body).encode()) == body
    assert parse_body(json.dumps(body, ensure_ascii=False).encode()) == body


@pytest.mark.parametrize("body", [b'"' + b'\\"' * 400_000 + b"," * 99_000, b'"' * 999_999])
def test_quotes_without_end_are_counted_in_one_pass(body: bytes) -> None:
    with pytest.raises(json.JSONDecodeError):
        parse_body(body)


def test_fields_without_end_are_refused() -> None:
    with pytest.raises(HTTPException, match="1,000 fields"):
        parse_body(json.dumps({str(i): 0 for i in range(1000)}).encode())


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b'{"a": "\\ud800"}', b"[" * 50_000])
def test_what_is_not_json_is_said_to_be(body: bytes) -> None:
    with pytest.raises(json.JSONDecodeError):
        parse_body(body)
