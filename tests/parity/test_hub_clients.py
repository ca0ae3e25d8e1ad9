"""Real clients load the folder of `export hub`, each by its published package, and agree."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from litebert.interop.hub import export_hub
from litebert.model.head_table import Head
from litebert.predict.predictor import Predictor
from node_scripts import node, package_version
from tiny_models import random_model_folder

pytestmark = pytest.mark.slow

COMMAND = 'pytest -m "" tests/parity/test_hub_clients.py'
Record = Callable[[str, float, str], None]
TEXTS = ["a name", "The value of an Expression, in parentheses (1998)."]
MASKED = ["the [MASK] of a name.", "An expression (or [MASK]), which is evaluated"]
PASSAGE = "The value of a name is found at run time. Ann gave it to Bo."
FOLDERS: tuple[Head, ...] = (
    "encoder", "pretraining", "masked_lm", "classification", "regression", "multiple_choice",
    "token_classification", "span",
)  # fmt: skip


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer_dir: Path) -> Path:
    """A folder with the folder of each head."""
    place = tmp_path_factory.mktemp("hub")
    for head in FOLDERS:
        source = random_model_folder(place / "sources" / head, head, tiny_tokenizer_dir)
        export_hub(source, place / head)
    return place


def predictor(hub: Path, head: Head) -> Predictor:
    return Predictor.load(hub / "sources" / head, "torch")


def say(capsys: pytest.CaptureFixture[str], words: str) -> None:
    """Print a version where people see it."""
    with capsys.disabled():
        print(f" [{words}]", end="")


@pytest.fixture
def transformers(capsys: pytest.CaptureFixture[str]) -> Any:
    library = pytest.importorskip("transformers")
    say(capsys, f"transformers {library.__version__}")
    return library


@pytest.mark.parametrize("head", ["pretraining", "masked_lm"])
def test_fill_mask_pipeline(hub: Path, head: Head, transformers: Any, record_exactness: Record) -> None:
    ask = transformers.pipeline("fill-mask", str(hub / head), device="cpu")
    largest = 0.0
    for text, ours in zip(MASKED, predictor(hub, head).fill_mask(MASKED), strict=True):
        theirs = ask(text)
        assert [row["token"] for row in theirs] == [best.token_id for best in ours.masks[0]]
        for row, best in zip(theirs, ours.masks[0], strict=True):
            largest = max(largest, abs(row["score"] - best.score))
    record_exactness(f"transformers' fill-mask pipeline, {head}", largest, COMMAND)
    assert largest < 1e-5


@pytest.mark.parametrize("head", ["classification", "regression"])
def test_text_classification_pipeline(hub: Path, head: Head, transformers: Any, record_exactness: Record) -> None:
    ask = transformers.pipeline("text-classification", str(hub / head), device="cpu", top_k=None)
    ours = predictor(hub, head).predict([{"text": text} for text in TEXTS])
    largest = 0.0
    for theirs, own in zip(ask(TEXTS), ours, strict=True):
        scores = own.get("scores") or {theirs[0]["label"]: own["value"]}
        assert isinstance(scores, dict)
        for row in theirs:
            largest = max(largest, abs(row["score"] - scores[row["label"]]))
    record_exactness(f"transformers' text-classification pipeline, {head}", largest, COMMAND)
    assert largest < 1e-5


def test_feature_extraction_pipeline(hub: Path, transformers: Any, record_exactness: Record) -> None:
    ask = transformers.pipeline("feature-extraction", str(hub / "encoder"), device="cpu")
    theirs = np.stack([np.mean(ask(text)[0], axis=0) for text in TEXTS])
    largest = float(np.abs(theirs - predictor(hub, "encoder").embed(TEXTS)).max())
    record_exactness("transformers' feature-extraction pipeline, mean", largest, COMMAND)
    assert largest < 1e-5


def test_token_classification_pipeline(hub: Path, transformers: Any, record_exactness: Record) -> None:
    head: Head = "token_classification"
    ask = transformers.pipeline("token-classification", str(hub / head), device="cpu", ignore_labels=[])
    words = TEXTS[1].replace(",", "").split()[:5]
    (ours,) = predictor(hub, head).predict([{"words": words}])
    first = {row["start"]: row for row in reversed(ask(" ".join(words)))}
    starts = [len(" ".join([*words[:number], ""])) for number in range(len(words))]
    theirs = [first[start] for start in starts]
    assert [row["entity"] for row in theirs] == ours["tags"]
    scores = ours["scores"]
    assert isinstance(scores, list)
    largest = max(abs(a["score"] - b) for a, b in zip(theirs, scores, strict=True))
    record_exactness("transformers' token-classification pipeline", float(largest), COMMAND)
    assert largest < 1e-5


def test_question_answering(hub: Path, transformers: Any, record_exactness: Record) -> None:
    """transformers 5 has no pipeline for it any more: its tokenizer and its model are asked."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(hub / "span")
    model = transformers.AutoModelForQuestionAnswering.from_pretrained(hub / "span")
    asked = {"question": "who gave it?", "context": PASSAGE}
    inputs = tokenizer(asked["question"], PASSAGE, return_tensors="pt")
    theirs = model(**inputs)
    ours = predictor(hub, "span")
    question = ours.question(asked, ours.form())
    (said,) = ours.run_batch(question.features, ["start_logits", "end_logits"])
    largest = 0.0
    for name in ("start_logits", "end_logits"):
        difference = np.abs(theirs[name][0].detach().numpy() - said[name]).max()
        largest = max(largest, float(difference))
    record_exactness("transformers' question answering, logits", largest, COMMAND)
    assert largest < 1e-5


def test_multiple_choice_has_no_pipeline_but_a_class(hub: Path, transformers: Any) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(hub / "multiple_choice")
    model = transformers.AutoModelForMultipleChoice.from_pretrained(hub / "multiple_choice")
    row = {"text": PASSAGE, "question": "who gave it?", "options": ["Ann did", "Bo did not"]}
    (ours,) = predictor(hub, "multiple_choice").predict([row])
    pairs = [f"{row['question']} {option}" for option in row["options"]]
    inputs = tokenizer([PASSAGE] * 2, pairs, return_tensors="pt", padding=True)
    logits = model(**{name: value[None] for name, value in inputs.items()}).logits
    assert np.abs(logits.softmax(-1).detach().numpy()[0] - ours["scores"]).max() < 1e-4


@pytest.mark.parametrize("head", ["encoder", "pretraining"])
def test_sentence_transformers_with_torch(
    hub: Path, head: Head, capsys: pytest.CaptureFixture[str], record_exactness: Record
) -> None:
    library = pytest.importorskip("sentence_transformers")
    say(capsys, f"sentence-transformers {library.__version__}")
    model = library.SentenceTransformer(str(hub / head), device="cpu")
    difference = float(np.abs(model.encode(TEXTS) - predictor(hub, head).embed(TEXTS)).max())
    record_exactness(f"sentence-transformers, torch, export hub, {head}", difference, COMMAND)
    assert difference < 1e-5


ONNX_SCRIPT = """
import json, sys
import sentence_transformers, transformers
from sentence_transformers import SentenceTransformer
folder, texts = json.load(sys.stdin)
vectors = {}
for file in ("onnx/model.onnx", "onnx/model_quantized.onnx"):
    model = SentenceTransformer(folder, backend="onnx", model_kwargs={"file_name": file})
    vectors[file] = model.encode(texts).tolist()
versions = f"{sentence_transformers.__version__} with transformers {transformers.__version__}"
print(json.dumps([versions, vectors]))
"""


def test_sentence_transformers_with_onnx(
    hub: Path, capsys: pytest.CaptureFixture[str], record_exactness: Record
) -> None:
    """Its ONNX backend wants transformers 4, so it runs with a folder of packages of its own."""
    packages = Path(__file__).parents[2] / "build" / "peers"
    if not packages.is_dir():
        pytest.skip("needs `make peers`")
    answer = subprocess.run(
        [sys.executable, "-c", ONNX_SCRIPT], input=json.dumps([str(hub / "pretraining"), TEXTS]),
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(packages)},
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr[-3000:]
    versions, vectors = json.loads(answer.stdout.splitlines()[-1])
    say(capsys, f"sentence-transformers {versions}")
    expected = predictor(hub, "pretraining").embed(TEXTS)
    full, small = (np.array(vectors[f"onnx/{name}.onnx"]) for name in ("model", "model_quantized"))
    difference = float(np.abs(full - expected).max())
    record_exactness("sentence-transformers, onnx, export hub", difference, COMMAND)
    assert difference < 1e-5
    cosine = (small * expected).sum(-1)
    cosine /= np.linalg.norm(small, axis=-1) * np.linalg.norm(expected, axis=-1)
    assert cosine.min() > 0.9


def test_transformers_js_under_node(hub: Path, capsys: pytest.CaptureFixture[str], record_exactness: Record) -> None:
    pooling = {"pooling": "mean", "normalize": True}
    asked: list[dict[str, object]] = [
        {"model": "pretraining", "task": "fill-mask", "inputs": [MASKED]},
        {"model": "encoder", "task": "feature-extraction", "inputs": [TEXTS], "options": pooling},
        {"model": "classification", "task": "text-classification", "inputs": [TEXTS],
         "options": {"top_k": 3}},
        {"model": "span", "task": "question-answering", "inputs": ["who gave it?", PASSAGE]},
    ]  # fmt: skip
    said = {}
    for dtype in ("fp32", "q8"):
        request = [{**row, "dtype": dtype} for row in asked]
        answer = node("transformers_js.mjs", {"folder": str(hub), "asked": request})
        said[dtype] = answer["answers"]
    say(capsys, f"transformers.js {package_version('@huggingface/transformers')}")
    masks, vectors, classes, span = said["fp32"]
    differences = []
    ours = predictor(hub, "pretraining").fill_mask(MASKED)
    for theirs, own in zip(masks, ours, strict=True):
        assert [row["token"] for row in theirs] == [best.token_id for best in own.masks[0]]
        pairs = zip(theirs, own.masks[0], strict=True)
        differences += [row["score"] - best.score for row, best in pairs]
    embedded = predictor(hub, "encoder").embed(TEXTS)
    embedded /= np.linalg.norm(embedded, axis=-1, keepdims=True)
    differences += [float(np.abs(np.array(vectors) - embedded).max())]
    answers = predictor(hub, "classification").predict([{"text": text} for text in TEXTS])
    for theirs, own_scores in zip(classes, (row["scores"] for row in answers), strict=True):
        assert isinstance(own_scores, dict)
        differences += [row["score"] - own_scores[row["label"]] for row in theirs]
    largest = float(np.abs(differences).max())
    record_exactness("transformers.js under Node, fp32: masks, vectors, classes", largest, COMMAND)
    assert largest < 1e-4
    assert span["answer"] in PASSAGE.lower() or span["answer"] in PASSAGE
    small = np.array(said["q8"][1])
    assert (small * embedded).sum(-1).min() > 0.9


@pytest.mark.parametrize("place", ["bundled", "official"])
def test_the_tokenizer_of_the_page_gives_the_official_ids(
    place: str, shared: Path, tmp_path: Path, record_exactness: Record,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """500 lines of Wikipedia as they are, and with a word hidden in each."""
    from litebert.bundled import bundled_model
    from litebert.common.files import open_binary
    from litebert.text.tokenizer import Tokenizer

    folder = tmp_path
    if place == "official":
        model = shared / "fixtures" / "official" / "spiece.model"
        (tmp_path / "spiece.model").write_bytes(model.read_bytes())
        Tokenizer.load(tmp_path).save(tmp_path)
    else:
        folder = bundled_model()
    lines: list[str] = []
    with open_binary(shared / "data" / "corpus" / "wiki.txt.xz") as stream:
        while len(lines) < 500:
            if line := stream.readline().decode().strip():
                lines.append(line)
    masked = []
    for number, line in enumerate(lines):
        words = line.split()
        words[number % len(words)] = "[MASK]" + (",", ".", "", "'s")[number % 4]
        masked.append(" ".join(words))
    tokenizer = Tokenizer.load(folder)
    cls, sep = tokenizer.cls_id, tokenizer.sep_id
    found = node("tokenize.mjs", {"folder": str(folder), "lines": lines + masked})
    expected = tokenizer.encode_batch(lines) + [tokenizer.encode_masked(line) for line in masked]
    say(capsys, f"@huggingface/tokenizers {package_version('@huggingface/tokenizers')}")
    different = [
        line for line, theirs, ours in zip(lines + masked, found, expected, strict=True) if theirs != [cls, *ours, sep]
    ]
    label = f"the page's tokenizer, {place} vocabulary, 1,000 lines (500 with a mask): differ"
    record_exactness(label, len(different), COMMAND)
    assert len(different) <= 2, different  # ties, which float32 and float64 decide differently
