"""The embed command: vectors of `Predictor.embed` in every format, bad rows in their places."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from litebert.cli import main
from litebert.common.rows import read_rows
from litebert.predict.predictor import Predictor

TEXTS = ["A first text.", "Another text, a little longer than the first.", "A third."]


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.jsonl"
    rows = [{"id": 7 + i, "body": text} for i, text in enumerate(TEXTS)]
    rows.insert(1, {"id": 99, "body": ""})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_every_format_holds_the_same_vectors(texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = Predictor.load("bundled-sentences").embed(TEXTS)
    for name in ("v.npy", "v.parquet", "v.jsonl"):
        main(["embed", "--input", str(texts), "--column", "body", "--out", str(tmp_path / name)])
        said = capsys.readouterr().err
        assert "1 of 4 rows have no vector" in said
        assert f"{texts}:2: " in said
        if name == "v.npy":
            found = np.load(tmp_path / name)
            assert np.isnan(found[1]).all()
            found = np.delete(found, 1, axis=0)
        else:
            rows = [row for _, row in read_rows(tmp_path / name)]
            assert "error" in rows[1]
            assert rows[2]["text"] == TEXTS[1]
            assert [str(row["id"]) for row in rows] == ["7", "99", "8", "9"]
            found = np.array([row["embedding"] for row in rows if row["text"]], np.float32)
        assert np.abs(found - wanted).max() < 1e-5


def test_lines_of_a_text_and_fewer_dimensions(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("\n".join(TEXTS) + "\n")
    main(["embed", "--input", str(tmp_path / "t.txt"), "--dimensions", "16",
          "--out", str(tmp_path / "v.npy")])  # fmt: skip
    found = np.load(tmp_path / "v.npy")
    wanted = Predictor.load("bundled-sentences").embed(TEXTS)[:, :16]
    wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)  # as its folder asks for
    assert np.abs(found - wanted).max() < 1e-5


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (["--dimensions", "193"], "dimensions is 193: vectors of"),
        (["--dimensions", "0"], "dimensions is 0"),
        (["--out", "v.csv"], "cannot write v.csv"),
        (["--strict", "--column", "body"], "texts.jsonl:2: 'text' is empty"),
    ],
)
def test_what_cannot_be_is_one_line(
    texts: Path, tmp_path: Path, flags: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["--out", str(tmp_path / "v.npy")] if "--out" not in flags else []
    with pytest.raises(SystemExit) as status:
        main(["embed", "--input", str(texts), *out, *flags])
    assert status.value.code == 2
    assert line in capsys.readouterr().err
    assert not (tmp_path / "v.npy").exists()


def test_predict_embed_says_the_same(texts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["embed", "--input", str(texts), "--column", "body"])
    ours = capsys.readouterr().out
    plain = texts.with_name("plain.jsonl")
    plain.write_text(texts.read_text().replace("body", "text"))
    main(["predict", "embed", "--input", str(plain)])
    assert capsys.readouterr().out == ours
