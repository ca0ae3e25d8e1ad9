"""Speed of inference: ours (torch, ONNX, int8) beside transformers and plain onnxruntime.

    python bench/inference.py [--model DIR] [--sentences 436] [--passages 16] [--requests 60]

All run the same weights: those of ``--model`` (any model folder; a head that it lacks is made
anew, since speed does not depend on it), or random ones of the shape ``albert-base`` with the
official vocabulary. SST-2 dev sentences and long SQuAD passages, in the order of the files.

Throughput: transformers' text-classification pipeline with batches of 32 as they come, and sorted
by length; for passages, transformers on windows of 384 in batches of 32 (its question-answering
pipeline is gone since version 5). Latency of single requests: transformers eager and SDPA, and the
model that torch.onnx exports, on plain onnxruntime. Tokenising counts on both sides; all take
turns, and the best of the rounds counts. Needs the reference data; about five minutes on two
cores.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from machine import on_this_machine, ratio_text
from onnx_size import export_peer
from transformers.utils.logging import disable_progress_bar

from litebert.interop.folder import ModelFolder
from litebert.interop.hf import build_model, load_model, save_model
from litebert.interop.onnx.export import export_onnx
from litebert.model.config import preset
from litebert.model.head_table import Head
from litebert.predict.predictor import Predictor

REPOSITORY = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("LITEBERT_SHARED", REPOSITORY.parent / "shared"))
BATCH = 32
REST_S = 0.5
WARM_UP_REQUESTS = 3
TARGETS = {"litebert torch": 2.5, "litebert onnx int8": 3.0}

Json = dict[str, object]


def make_models(source: Path | None, shape: str, work: Path) -> dict[str, Path]:
    """Return folders of a classifier and a span model: torch, ONNX, int8."""
    folders = {}
    heads: tuple[Head, ...] = ("classification", "span")
    for head in heads:
        folder = work / head
        folders[f"{head} torch"] = folder
        if source is None:
            tokenizer = work / "tokenizer"
            tokenizer.mkdir(exist_ok=True)
            shutil.copyfile(SHARED / "fixtures/official/spiece.model", tokenizer / "spiece.model")
            model = build_model(preset(shape), head, 2, torch.Generator().manual_seed(0))
            save_model(model, folder, tokenizer)
        elif ModelFolder(source).head == head:
            shutil.copytree(source, folder)
        else:
            save_model(load_model(source, head, new_head=True, num_labels=2), folder, source)
        for precision in ("float32", "int8"):
            out = work / f"{head}-{precision}"
            folders[f"{head} {precision}"] = out
            export_onnx(folder, out, int8=precision == "int8")
    return folders


def sentences(count: int) -> tuple[list[str], list[int]]:
    """Return SST-2's dev sentences and their labels."""
    lines = (SHARED / "data/glue/SST-2/dev.tsv").read_text(encoding="utf-8").splitlines()[1:]
    cells = [line.split("\t") for line in lines][:count]
    return [text for text, _ in cells], [int(label) for _, label in cells]


def passages(count: int) -> list[dict[str, object]]:
    """Return the questions of the longest passages, one of each."""
    data = json.loads((SHARED / "data/squad/dev-v1.1.json").read_text(encoding="utf-8"))["data"]
    paragraphs = [paragraph for article in data for paragraph in article["paragraphs"]]
    paragraphs.sort(key=lambda paragraph: -len(paragraph["context"]))
    return [
        {"question": paragraph["qas"][0]["question"], "context": paragraph["context"]}
        for paragraph in paragraphs[:count]
    ]


Runs = dict[str, Callable[[], object]]


def all_times(runs: Runs, rounds: int) -> dict[str, list[float]]:
    """Return the wall times of each; they take turns, so that noise is shared."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            started = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - started)
    return times


def pipeline_run(folder: Path, texts: Sequence[str]) -> Callable[[], object]:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

    classify = pipeline(
        "text-classification",
        model=AutoModelForSequenceClassification.from_pretrained(folder),
        tokenizer=AutoTokenizer.from_pretrained(folder),
        device=-1,
    )
    classify(list(texts[:BATCH]), batch_size=BATCH)
    return lambda: classify(list(texts), batch_size=BATCH)


def peer_windows_run(folder: Path, records: Sequence[dict[str, object]]) -> Callable[[], object]:
    """transformers on SQuAD windows of 384 tokens that start about 128 apart, as ours do."""
    from transformers import AutoModelForQuestionAnswering, AutoTokenizer

    model = AutoModelForQuestionAnswering.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)

    def run() -> None:
        encoded = tokenizer(
            [str(record["question"]) for record in records],
            [str(record["context"]) for record in records],
            max_length=384,
            stride=240,  # what windows share; with 13 tokens of question they start 128 apart
            truncation="only_second",
            return_overflowing_tokens=True,
        )
        rows = [
            {name: encoded[name][i] for name in ("input_ids", "attention_mask", "token_type_ids")}
            for i in range(len(encoded["input_ids"]))
        ]
        for start in range(0, len(rows), BATCH):
            batch = tokenizer.pad(rows[start : start + BATCH], return_tensors="pt")
            with torch.inference_mode():
                model(**batch)

    return run


def peer_single(folder: Path, attention: str) -> Callable[[str], object]:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(folder, attn_implementation=attention).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)

    def run(text: str) -> None:
        with torch.inference_mode():
            model(**tokenizer(text, return_tensors="pt"))

    return run


def export_classifier(folder: Path) -> Path:
    """Export transformers' model with torch.onnx."""
    from transformers import AutoModelForSequenceClassification

    model = AutoModelForSequenceClassification.from_pretrained(folder, attn_implementation="eager").eval()
    path = folder.with_name("peer") / "model.onnx"
    export_peer(model, path, dynamo=False)
    return path


def plain_onnx(folder: Path, file: Path, threads: int) -> Callable[[str], object]:
    import onnxruntime
    from transformers import AutoTokenizer

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(file), options)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return lambda text: session.run(None, dict(tokenizer(text, return_tensors="np")))


def our_predictors(folders: dict[str, Path], head: str, threads: int) -> dict[str, Predictor]:
    """Return our three ways to run a model, warmed up."""
    found = {}
    for name, label in (("torch", "torch"), ("float32", "onnx"), ("int8", "onnx int8")):
        predictor = Predictor.load(folders[f"{head} {name}"], threads=threads)
        predictor.embed(["The first call pays for what is set up late."])
        found[f"litebert {label}"] = predictor
    return found


def measure_sentences(folders: dict[str, Path], arguments: argparse.Namespace) -> Json:
    """Throughput on short texts of mixed length, and whether the three ways agree."""
    texts, gold = sentences(arguments.sentences)
    ours = our_predictors(folders, "classification", arguments.threads)
    encode = ours["litebert torch"].tokenizer.encode
    folder = folders["classification torch"]
    runs: Runs = {
        "transformers pipeline": pipeline_run(folder, texts),
        "transformers pipeline, sorted": pipeline_run(folder, sorted(texts, key=lambda text: len(encode(text)))),
    }
    answers: dict[str, list[int]] = {}

    def classify(name: str, predictor: Predictor) -> None:
        labels = list(predictor.form().labels)
        found = predictor.predict([{"text": text} for text in texts])
        answers[name] = [labels.index(str(answer["label"])) for answer in found]

    runs |= {name: partial(classify, name, predictor) for name, predictor in ours.items()}
    print(f"\n{len(texts)} SST-2 dev sentences, classification")
    times = report(runs, len(texts), "sentences/s", arguments.rounds, TARGETS)
    agreement = {name: _share(found, answers["litebert torch"]) for name, found in answers.items()}
    accuracy = {name: _share(found, gold) for name, found in answers.items()}
    for name in answers:
        print(f"  {name:<32} accuracy {accuracy[name]:6.1%}, as torch says {agreement[name]:6.1%}")
    return {"seconds": times, "agreement": agreement, "accuracy": accuracy}


def measure_passages(folders: dict[str, Path], arguments: argparse.Namespace) -> Json:
    """Throughput on long passages."""
    records = passages(arguments.passages)
    runs: Runs = {"transformers": peer_windows_run(folders["span torch"], records)}
    for name, predictor in our_predictors(folders, "span", arguments.threads).items():
        length = min(384, predictor.max_length)
        runs[name] = partial(predictor.predict, records, max_length=length)
    print(f"\n{len(records)} long SQuAD passages, span extraction (answers decoded on our side)")
    return {"seconds": report(runs, len(records), "passages/s", arguments.rounds, {})}


def _share(one: Sequence[int], other: Sequence[int]) -> float:
    return float(np.mean(np.array(one) == np.array(other)))


def report(runs: Runs, count: int, unit: str, rounds: int, targets: dict[str, float]) -> dict[str, float]:
    """Measure and print; ratios are to the first."""
    times = all_times(runs, rounds)
    first = next(iter(times.values()))
    for name, seconds in times.items():
        target = f", target {targets[name]}x" if name in targets else ""
        print(f"  {name:<32} {count / min(seconds):8.1f} {unit}  {ratio_text(first, seconds)}{target}")
    return {name: min(seconds) for name, seconds in times.items()}


def measure_latency(folders: dict[str, Path], arguments: argparse.Namespace) -> Json:
    """Time of single requests, and ours beside the fastest peer."""
    folder = folders["classification torch"]
    peers: dict[str, Callable[[str], object]] = {
        "transformers eager": peer_single(folder, "eager"),
        "transformers sdpa": peer_single(folder, "sdpa"),
        "plain onnxruntime": plain_onnx(folder, export_classifier(folder), arguments.threads),
    }
    ours = our_predictors(folders, "classification", arguments.threads)
    runs = peers | {name: lambda text, p=predictor: p.predict([{"text": text}]) for name, predictor in ours.items()}
    texts, _ = sentences(arguments.requests)
    times: dict[str, list[float]] = {name: [] for name in runs}
    # Each for itself, there and back: onnxruntime's threads go on spinning after a run and would
    # slow down whoever comes next.
    for order in (list(runs), list(reversed(runs))):
        for name in order:
            time.sleep(REST_S)
            for text in texts[:WARM_UP_REQUESTS]:
                runs[name](text)
            for text in texts:
                started = time.perf_counter()
                runs[name](text)
                times[name].append(time.perf_counter() - started)
    shares = {name: np.percentile(np.array(seconds) * 1000, [50, 95]).tolist() for name, seconds in times.items()}
    fastest = min(shares[name][0] for name in peers)
    fastest_torch = min(shares[name][0] for name in peers if name.startswith("transformers"))
    print(f"\nlatency of single requests, {len(texts)} sentences, ms")
    for name, (p50, p95) in shares.items():
        beside = ""
        if name == "litebert torch":
            beside = f"  {p50 / fastest_torch:5.2f} of the fastest with torch"
        elif name in ours:
            beside = f"  {p50 / fastest:5.2f} of the fastest peer (target 1.1)"
        print(f"  {name:<32} p50 {p50:7.1f}  p95 {p95:7.1f}{beside}")
    return {name: {"p50_ms": p50, "p95_ms": p95} for name, (p50, p95) in shares.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, help="model folder; default: random weights")
    parser.add_argument("--preset", default="albert-base", help="shape of the random weights")
    parser.add_argument("--sentences", type=int, default=436)
    parser.add_argument("--passages", type=int, default=16)
    parser.add_argument("--requests", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write the figures to a file")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    logging.disable(logging.WARNING)
    disable_progress_bar()  # type: ignore[no-untyped-call]
    warnings.filterwarnings("ignore")
    versions = {name: version(name) for name in ("torch", "transformers", "onnxruntime")}
    shown = ", ".join(f"{name} {number}" for name, number in versions.items())
    model = str(arguments.model or f"{arguments.preset}, random weights")
    print(f"{model}; {arguments.threads} threads; {shown}")
    with tempfile.TemporaryDirectory() as work:
        folders = make_models(arguments.model, arguments.preset, Path(work))
        figures = {
            "model": model,
            "versions": versions,
            "latency": measure_latency(folders, arguments),
            "sentences": measure_sentences(folders, arguments),
            "passages": measure_passages(folders, arguments),
        }
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2), encoding="utf-8")


if __name__ == "__main__":
    with on_this_machine():
        main()
