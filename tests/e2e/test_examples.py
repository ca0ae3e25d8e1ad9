"""The example scripts run, tiny, and say what they should."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from litebert.cli import main
from tiny_models import random_model_folder

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))


def run(script: str, *arguments: object) -> str:
    command = [sys.executable, str(EXAMPLES / script), *map(str, arguments)]
    answer = subprocess.run(command, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer_dir: Path) -> Path:
    folder = tmp_path_factory.mktemp("models") / "pretraining"
    return random_model_folder(folder, "pretraining", tiny_tokenizer_dir)


def test_there_are_seven_short_ones_with_a_usage_line() -> None:
    assert len(SCRIPTS) == 7
    for path in SCRIPTS:
        text = path.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 60, path.name
        assert f"python examples/{path.name}" in text


def test_pretrain_a_folder(tmp_path: Path, python_text: Path) -> None:
    said = run(
        "pretrain_folder.py", python_text, tmp_path, "--steps", 2, "--vocab-size", 500
    )  # fmt: skip
    assert f"model: {tmp_path / 'run' / 'model'}" in said
    assert "dev loss at [MASK]" in said
    assert (tmp_path / "run" / "model" / "model.safetensors").is_file()


def test_continue_the_pretraining_of_a_folder_of_transformers(
    tmp_path: Path, tiny_tokenizer_dir: Path, python_text: Path
) -> None:
    """What transformers saved, without a sentence head, goes on learning and is read again."""
    transformers = pytest.importorskip("transformers")
    shape = transformers.AlbertConfig(
        vocab_size=1000, embedding_size=16, hidden_size=32, num_hidden_layers=2,
        num_attention_heads=2, intermediate_size=64, max_position_embeddings=64,
    )  # fmt: skip
    transformers.AlbertForMaskedLM(shape).save_pretrained(tmp_path / "theirs")
    for file in tiny_tokenizer_dir.iterdir():
        (tmp_path / "theirs" / file.name).write_bytes(file.read_bytes())
    said = run(
        "continue_pretraining.py", tmp_path / "theirs", python_text, tmp_path / "out",
        "--steps", 60, "--batch-size", 8, "--length", 64, "--lr", 0.003,
    )  # fmt: skip
    before, after = (float(loss) for loss in re.findall(r"at \[MASK\] ([\d.]+)", said))
    assert after < before
    again = transformers.AlbertForPreTraining.from_pretrained(tmp_path / "out" / "run" / "model")
    assert again.config.hidden_size == 32


def test_every_kind_of_own_task_in_one_script(tmp_path: Path, model: Path) -> None:
    said = run("custom_task/run.py", model, tmp_path, "--epochs", 0.2)
    kinds = [path.stem for path in sorted((EXAMPLES / "custom_task").glob("*.toml"))]
    assert [line.split()[0] for line in said.splitlines()] == ["task", *kinds]


def test_finetune_a_csv(tmp_path: Path, model: Path) -> None:
    rows = [f'"a {word} day, number {n}",{label}' for n in range(15)
            for word, label in (("sunny", "good"), ("rainy", "bad"))]  # fmt: skip
    (tmp_path / "days.csv").write_text("words,mood\n" + "\n".join(rows), encoding="utf-8")
    said = run(
        "finetune_csv.py", tmp_path / "days.csv", tmp_path / "out",
        "--model", model, "--text", "words", "--label", "mood", "--epochs", 1,
    )  # fmt: skip
    assert "of 5 rows; always the same 40.0%" in said
    answer = json.loads(said.splitlines()[-1])
    assert set(answer["scores"]) == {"bad", "good"}


def test_answer_with_onnx_only(tmp_path: Path, tiny_tokenizer_dir: Path) -> None:
    """The script itself fails if torch was imported."""
    from litebert.interop.onnx.export import export_onnx

    export_onnx(random_model_folder(tmp_path / "span", "span", tiny_tokenizer_dir), tmp_path / "onnx")
    passage = tmp_path / "passage.txt"
    passage.write_text("A dictionary maps keys to values.", encoding="utf-8")
    said = run("answer_with_onnx.py", tmp_path / "onnx", passage, "What maps keys?", "Who?")
    answers = re.findall(r"->  (.*)", said)
    assert len(answers) == 2
    assert all(answer in passage.read_text(encoding="utf-8") for answer in answers)


def test_a_sentence_finds_itself(tmp_path: Path, model: Path) -> None:
    text = tmp_path / "text.txt"
    sentences = ("A list has an order.", "A dictionary maps keys to values.", "Sets have none.")
    text.write_text(" ".join(sentences), encoding="utf-8")
    said = run("search_sentences.py", text, sentences[1], "--model", model, "--top", 2)
    first = said.splitlines()[1].split(maxsplit=1)
    assert first == ["1.000", sentences[1]]


def test_an_index_finds_a_text_by_itself(tmp_path: Path, model: Path) -> None:
    pytest.importorskip("faiss")
    texts, vectors = tmp_path / "texts.txt", tmp_path / "vectors.npy"
    texts.write_text("A list has an order.\nA dictionary maps keys to values.\n", encoding="utf-8")
    main(["embed", "--model", str(model), "--input", str(texts), "--out", str(vectors)])
    command = ("search_index.py", texts, vectors, "A list has an order.", "--model", model)
    for _ in ("made", "read again"):
        said = run(*command, "--top", 1, "--index", tmp_path / "kept.faiss")
        assert said.splitlines()[1].split(maxsplit=1) == ["1.000", "A list has an order."]
