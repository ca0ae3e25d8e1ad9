"""A vocabulary of another language is seen: in texts, in corpora and in tasks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from litebert.cli import main
from litebert.common.errors import DataError
from litebert.model.head_table import Head
from litebert.tasks.registry import find_task
from litebert.text.coverage import Coverage
from litebert.text.tokenizer import Tokenizer
from litebert.train.finetuning.setup import load_task_data

KNOWN = "the value of a name is an object and the object has a type"
FOREIGN = "請求書が 間違って います 機械が 動きません 返金して ください"


def coverage(text: str, tokenizer: Tokenizer) -> Coverage:
    return Coverage.of([np.array(tokenizer.encode(text), np.int64)], tokenizer)


def test_the_share_counts_words_and_not_their_marks(tiny_tokenizer: Tokenizer) -> None:
    known, foreign = coverage(KNOWN, tiny_tokenizer), coverage(FOREIGN, tiny_tokenizer)
    assert known.unknown == 0
    assert foreign.unknown == foreign.tokens > 0
    assert known + foreign == coverage(f"{KNOWN} {FOREIGN}", tiny_tokenizer)
    special = np.array(tiny_tokenizer.special_ids)
    assert Coverage.of([special], tiny_tokenizer) == Coverage(1, 1)


def test_much_is_warned_of_and_most_stops() -> None:
    assert Coverage(100, 5).check("a.txt", False) is None
    assert Coverage().check("a.txt", False) is None
    line = Coverage(100, 6).check("a.txt", False)
    assert line is not None
    assert "a.txt: 6% of 100 tokens" in line
    assert "another language or script" in line
    with pytest.raises(DataError, match="51% of 100 tokens .*--allow-unknown"):
        Coverage(100, 51).check("a.txt", False)
    assert Coverage(100, 51).check("a.txt", True) is not None


def test_bytes_count_as_unknown(tmp_path: Path) -> None:
    import sentencepiece

    from litebert.text.tokenizer import TokenizerSettings, open_tokenizer

    (tmp_path / "a.txt").write_text((KNOWN + "\n") * 50)
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "a.txt"), model_prefix=str(tmp_path / "m"), vocab_size=330,
        byte_fallback=True, pad_id=0, unk_id=1, bos_id=-1, eos_id=-1, hard_vocab_limit=False,
        control_symbols=["[CLS]", "[SEP]", "[MASK]"], pad_piece="<pad>", minloglevel=2,
    )  # fmt: skip
    tokenizer = open_tokenizer((tmp_path / "m.model").read_bytes(), TokenizerSettings())
    found = coverage(FOREIGN, tokenizer)
    assert found.unknown == found.tokens > 0
    assert coverage(KNOWN, tokenizer).unknown == 0


def test_a_corpus_of_another_script_stops_unless_allowed(
    tmp_path: Path, tiny_tokenizer_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.txt").write_text("\n\n".join(f"{FOREIGN} {n}" for n in range(40)))
    command = ["prepare", "--input", str(tmp_path / "a.txt"), "--tokenizer"]
    command += [str(tiny_tokenizer_dir), "--out", str(tmp_path / "s"), "--workers", "1"]
    with pytest.raises(SystemExit) as stopped:
        main([*command, "--dev-fraction", "0.05"])
    assert stopped.value.code == 2
    assert "--allow-unknown" in capsys.readouterr().err
    main([*command, "--dev-fraction", "0.05", "--allow-unknown"])
    said = capsys.readouterr()
    assert "another language or script" in said.err
    assert "the dev split is small" in said.out
    assert "may stand for" in said.out


def test_a_task_of_another_script_stops_unless_allowed(tmp_path: Path, tiny_tokenizer: Tokenizer) -> None:
    rows = [f"{FOREIGN} {n},{'yes' if n % 2 else 'no'}" for n in range(60)]
    (tmp_path / "a.csv").write_text("\n".join(["text,label", *rows]))
    task = find_task(str(tmp_path / "a.csv"))
    with pytest.raises(DataError, match="--allow-unknown"):
        load_task_data(task, tmp_path, tiny_tokenizer, 64, None, False)
    data = load_task_data(task, tmp_path, tiny_tokenizer, 64, None, False, allow_unknown=True)
    lines = data.report()
    assert sum("another language" in line for line in lines) == 2
    assert any("labels found: no 30, yes 30" in line for line in lines)
    num_dev = len(data.evals[0].examples)
    assert any(f"dev has {num_dev} examples" in line and "%" in line for line in lines)


def test_an_evaluation_in_another_script_stops_unless_allowed(
    tmp_path: Path, model_folder: Callable[[Head], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    labels = load_labels(model_folder("classification"))
    rows = [f"{FOREIGN},{label}" for label in labels]
    (tmp_path / "a.csv").write_text("\n".join(["text,label", *rows]))
    command = ["evaluate", str(tmp_path / "a.csv"), "--data", str(tmp_path / "a.csv"), "--model"]
    command.append(str(model_folder("classification")))
    with pytest.raises(SystemExit):
        main(command)
    assert "--allow-unknown" in capsys.readouterr().err
    main([*command, "--allow-unknown"])
    said = capsys.readouterr()
    assert "accuracy" in said.out
    assert "another language or script" in said.err


def load_labels(folder: Path) -> tuple[str, ...]:
    from litebert.predict.purpose import Purpose

    return Purpose.read(folder).labels
