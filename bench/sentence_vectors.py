"""Sentences per second of the bundled sentence vectors, beside an encoder of sentence-transformers.

    python bench/sentence_vectors.py --peer FOLDER --input sentences.txt

One thread, processor time, rounds in turn: the peer by its own `encode`, ours in torch and in int8.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from machine import on_this_machine, ratio_text

from litebert import Predictor
from litebert.cli import run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", required=True, help="folder of a SentenceTransformer")
    parser.add_argument("--input", type=Path, required=True, help="a sentence on each line")
    parser.add_argument("--sentences", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(1)
    texts = options.input.read_text(encoding="utf-8").splitlines()[: options.sentences]
    with tempfile.TemporaryDirectory() as folder:
        run(["export", "onnx", "bundled-sentences", f"{folder}/int8", "--int8"])
        peer = SentenceTransformer(options.peer, device="cpu")
        ways: dict[str, Callable[[Sequence[str]], object]] = {
            "peer": peer.encode,
            "torch": Predictor.load("bundled-sentences", threads=1).embed,
            "int8": Predictor.load(f"{folder}/int8", threads=1).embed,
        }
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(options.rounds):
            for name, embed in ways.items():
                began = time.process_time()
                embed(texts)
                seconds[name].append(time.process_time() - began)
    for name, taken in seconds.items():
        rate = len(texts) / min(taken)
        print(f"{name}: {rate:,.0f} sentences/s, {ratio_text(seconds['peer'], taken)}")


if __name__ == "__main__":
    with on_this_machine():
        main()
