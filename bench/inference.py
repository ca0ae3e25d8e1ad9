"""Speed and size of inference: ours (torch, ONNX, int8) beside transformers and its ONNX export.

    python bench/inference.py [--sentences 872] [--passages 100] [--requests 100] [--threads 2]

One classification and one span model of the shape ``albert-base`` (random weights: speed does not
depend on them) and the official vocabulary; SST-2 dev sentences and SQuAD passages, in the order of
the files. Peers: transformers' text-classification pipeline with batches of 32 as they come and
sorted by length, transformers on SQuAD windows of 384 in batches of 32, transformers alone (SDPA
and eager) and its model exported by torch.onnx for the latency of single requests. Tokenising
counts on both sides. Needs the reference data.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import time
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from transformers.utils.logging import disable_progress_bar

from litebert.interop.hf import build_model, save_model
from litebert.interop.names import Head
from litebert.interop.onnx import export_onnx, num_nodes
from litebert.model.config import preset
from litebert.serve.predictor import Predictor

REPOSITORY = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("LITEBERT_SHARED", REPOSITORY.parent / "shared"))
BUILD = REPOSITORY / "build" / "bench" / "inference"
BATCH = 32
TARGETS = {"litebert torch": 2.5, "litebert onnx int8": 3.0}


def make_models(name: str) -> dict[str, Path]:
    """Return folders of a classifier and a span model: torch, ONNX, int8."""
    tokenizer = BUILD / "tokenizer"
    tokenizer.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(SHARED / "fixtures/official/spiece.model", tokenizer / "spiece.model")
    folders = {}
    heads: tuple[Head, ...] = ("classification", "span")
    for head in heads:
        source = BUILD / name / head
        folders[f"{head} torch"] = source
        if not source.is_dir():
            model = build_model(preset(name), head, 2, torch.Generator().manual_seed(0))
            save_model(model, source, tokenizer)
        for precision in ("float32", "int8"):
            out = BUILD / name / f"{head}-{precision}"
            folders[f"{head} {precision}"] = out
            if not out.is_dir():
                export_onnx(source, out, int8=precision == "int8")
    return folders


def sentences(count: int) -> list[str]:
    lines = (SHARED / "data/glue/SST-2/dev.tsv").read_text(encoding="utf-8").splitlines()[1:]
    return [line.split("\t")[0] for line in lines][:count]


def passages(count: int) -> list[dict[str, object]]:
    """Return the questions of the longest passages, one of each."""
    data = json.loads((SHARED / "data/squad/dev-v1.1.json").read_text(encoding="utf-8"))["data"]
    paragraphs = [paragraph for article in data for paragraph in article["paragraphs"]]
    paragraphs.sort(key=lambda paragraph: -len(paragraph["context"]))
    return [
        {"question": paragraph["qas"][0]["question"], "context": paragraph["context"]}
        for paragraph in paragraphs[:count]
    ]


def timed(run: Callable[[], object], repeats: int) -> float:
    """Return the best wall time of several runs, after one to warm up."""
    run()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return min(times)


def pipeline_run(folder: Path, texts: Sequence[str]) -> Callable[[], object]:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

    classify = pipeline(
        "text-classification",
        model=AutoModelForSequenceClassification.from_pretrained(folder),
        tokenizer=AutoTokenizer.from_pretrained(folder),
        device=-1,
    )
    return lambda: classify(list(texts), batch_size=BATCH)


def peer_windows_run(folder: Path, records: Sequence[dict[str, object]]) -> Callable[[], object]:
    """transformers on SQuAD windows of 384 tokens that start 128 apart, in batches of 32."""
    from transformers import AutoModelForQuestionAnswering, AutoTokenizer

    model = AutoModelForQuestionAnswering.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)

    def run() -> None:
        encoded = tokenizer(
            [str(record["question"]) for record in records],
            [str(record["context"]) for record in records],
            max_length=384,
            stride=256,
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

    model = AutoModelForSequenceClassification.from_pretrained(
        folder, attn_implementation=attention
    ).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)

    def run(text: str) -> None:
        with torch.inference_mode():
            model(**tokenizer(text, return_tensors="pt"))

    return run


def export_peer(folder: Path) -> tuple[Path, Path]:
    """Export transformers' model with torch.onnx, and quantise it with onnxruntime's tool."""
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from transformers import AutoModelForSequenceClassification

    full, small = folder.with_name("peer.onnx"), folder.with_name("peer-int8.onnx")
    if not small.is_file():
        model = AutoModelForSequenceClassification.from_pretrained(
            folder, attn_implementation="eager"
        ).eval()

        class Logits(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.model = model

            def forward(self, ids: object, mask: object, types: object) -> object:
                return self.model(input_ids=ids, attention_mask=mask, token_type_ids=types).logits

        names = ["input_ids", "attention_mask", "token_type_ids"]
        free = {0: "batch", 1: "sequence"}
        ids = torch.randint(5, 100, (2, 9))
        torch.onnx.export(
            Logits(),
            (ids, torch.ones_like(ids), torch.zeros_like(ids)),
            str(full),
            dynamo=False,
            opset_version=17,
            input_names=names,
            output_names=["logits"],
            dynamic_axes=dict.fromkeys(names, free),
        )
        quantize_dynamic(full, small, per_channel=True, weight_type=QuantType.QInt8)
    return full, small


def plain_onnx(folder: Path, file: Path, threads: int) -> Callable[[str], object]:
    import onnxruntime
    from transformers import AutoTokenizer

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(file), options)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return lambda text: session.run(None, dict(tokenizer(text, return_tensors="np")))


def print_sizes(folders: dict[str, Path], peer: tuple[Path, Path]) -> None:
    import onnx

    print("\nsize and integer products of the classifier")
    rows = [("transformers, torch.onnx", peer[0]), ("transformers, quantize_dynamic", peer[1])]
    rows += [
        (f"litebert {name}", folders[f"classification {name}"] / "model.onnx")
        for name in ("float32", "int8")
    ]
    for name, path in rows:
        graph = onnx.load(path).graph
        weights = {tensor.name for tensor in graph.initializer}
        floats = sum(
            node.op_type in ("MatMul", "Gemm") and bool(weights & set(node.input))
            for node in graph.node
        )
        integers = num_nodes(graph, "MatMulInteger")
        print(
            f"  {name:<32} {path.stat().st_size / 1e6:7.2f} MB, {integers:3} integer products,"
            f" {floats:3} float products with weights"
        )


def print_throughput(folders: dict[str, Path], arguments: argparse.Namespace) -> None:
    texts = sentences(arguments.sentences)
    torch_folder = folders["classification torch"]
    tokenizer = Predictor.load(torch_folder).tokenizer
    by_length = sorted(texts, key=lambda text: len(tokenizer.encode(text)))
    records = [{"text": text} for text in texts]
    runs: dict[str, Callable[[], object]] = {
        "transformers pipeline": pipeline_run(torch_folder, texts),
        "transformers pipeline, sorted": pipeline_run(torch_folder, by_length),
    }
    for name, label in (("torch", "torch"), ("float32", "onnx"), ("int8", "onnx int8")):
        predictor = Predictor.load(folders[f"classification {name}"], threads=arguments.threads)
        runs[f"litebert {label}"] = lambda p=predictor: p.predict(records)  # type: ignore[misc]
    print(f"\n{len(texts)} SST-2 dev sentences, classification")
    report(runs, len(texts), "sentences/s", arguments.repeats, TARGETS)
    questions = passages(arguments.passages)
    runs = {"transformers": peer_windows_run(folders["span torch"], questions)}
    for name, label in (("torch", "torch"), ("float32", "onnx"), ("int8", "onnx int8")):
        predictor = Predictor.load(folders[f"span {name}"], threads=arguments.threads)
        runs[f"litebert {label}"] = lambda p=predictor: p.predict(  # type: ignore[misc]
            questions, max_length=384
        )
    print(f"\n{len(questions)} long SQuAD passages, span extraction (answers decoded on our side)")
    report(runs, len(questions), "passages/s", arguments.repeats, {})


def report(
    runs: dict[str, Callable[[], object]],
    count: int,
    unit: str,
    repeats: int,
    targets: dict[str, float],
) -> None:
    first = None
    for name, run in runs.items():
        seconds = timed(run, repeats)
        first = first or seconds
        ratio = first / seconds
        target = f" (target {targets[name]}x)" if name in targets else ""
        print(f"  {name:<32} {count / seconds:8.1f} {unit}  {ratio:5.2f}x{target}", flush=True)


def print_latency(
    folders: dict[str, Path], peer: tuple[Path, Path], arguments: argparse.Namespace
) -> None:
    folder = folders["classification torch"]
    runs: dict[str, Callable[[str], object]] = {
        "transformers eager": peer_single(folder, "eager"),
        "transformers sdpa": peer_single(folder, "sdpa"),
        "plain onnxruntime": plain_onnx(folder, peer[0], arguments.threads),
    }
    for name, label in (("torch", "torch"), ("float32", "onnx"), ("int8", "onnx int8")):
        predictor = Predictor.load(folders[f"classification {name}"], threads=arguments.threads)
        runs[f"litebert {label}"] = lambda text, p=predictor: p.predict([{"text": text}])  # type: ignore[misc]
    texts = sentences(arguments.requests)
    times: dict[str, list[float]] = {name: [] for name in runs}
    for text in texts[:3] + texts:  # all take turns, so that a noisy machine is noisy for all
        for name, run in runs.items():
            started = time.perf_counter()
            run(text)
            times[name].append(time.perf_counter() - started)
    print(f"\nlatency of single requests, {len(texts)} sentences, ms")
    for name, seconds in times.items():
        p50, p95 = np.percentile(np.array(seconds[3:]) * 1000, [50, 95])
        print(f"  {name:<32} p50 {p50:7.1f}  p95 {p95:7.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="albert-base")
    parser.add_argument("--sentences", type=int, default=872)
    parser.add_argument("--passages", type=int, default=100)
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    logging.disable(logging.WARNING)
    disable_progress_bar()
    warnings.filterwarnings("ignore")
    versions = ", ".join(f"{n} {version(n)}" for n in ("torch", "transformers", "onnxruntime"))
    print(f"{arguments.preset}, {arguments.threads} threads; {versions}")
    folders = make_models(arguments.preset)
    peer = export_peer(folders["classification torch"])
    print_sizes(folders, peer)
    print_latency(folders, peer, arguments)
    print_throughput(folders, arguments)


if __name__ == "__main__":
    main()
