"""`litebert tokenizer`: the commands as a user calls them."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from litebert.cli import main
from litebert.text.tokenizer import Tokenizer


def encode(monkeypatch: pytest.MonkeyPatch, folder: Path, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    main(["tokenizer", "encode", "--tokenizer", str(folder)])


def test_encode_prints_one_list_a_line(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tiny_tokenizer: Tokenizer,
    tiny_tokenizer_dir: Path,
) -> None:
    lines = ["The value of x", "", "Café\r", "  ", "last line without an end"]
    encode(monkeypatch, tiny_tokenizer_dir, "\n".join(lines).encode())
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert answers == tiny_tokenizer.encode_batch(lines)
    assert answers[1] == answers[3] == []
    encode(monkeypatch, tiny_tokenizer_dir, b"")
    assert capsys.readouterr().out == ""


def test_encode_names_the_line_that_is_not_utf8(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tiny_tokenizer_dir: Path
) -> None:
    with pytest.raises(SystemExit) as caught:
        encode(monkeypatch, tiny_tokenizer_dir, b"good\n\ncaf\xe9\nmore\n")
    assert caught.value.code == 2
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 2
    assert "line 3: not UTF-8" in captured.err
    assert captured.err.count("\n") == 1


def test_encode_answers_while_the_input_stays_open(tiny_tokenizer: Tokenizer, tiny_tokenizer_dir: Path) -> None:
    command = [sys.executable, "-m", "litebert", "tokenizer", "encode", "--tokenizer"]
    with subprocess.Popen(
        [*command, str(tiny_tokenizer_dir)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin
        assert process.stdout
        for text in ("the first line", "and the next"):
            process.stdin.write(text.encode() + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline()) == tiny_tokenizer.encode(text)
        process.stdin.close()
        assert process.wait() == 0


def test_train_writes_a_folder_that_encode_reads(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, python_text: Path
) -> None:
    out = tmp_path / "tok"
    main(["tokenizer", "train", "--input", str(python_text), "--out", str(out),
          "--vocab-size", "300"])  # fmt: skip
    assert "300 pieces, lower-cased" in capsys.readouterr().out
    encode(monkeypatch, out, b"the")
    assert json.loads(capsys.readouterr().out) == Tokenizer.load(out).encode("the")


def test_a_missing_folder_is_one_line_and_status_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with pytest.raises(SystemExit) as caught:
        encode(monkeypatch, tmp_path / "nowhere", b"text\n")
    assert caught.value.code == 2
    assert "does not exist" in capsys.readouterr().err
