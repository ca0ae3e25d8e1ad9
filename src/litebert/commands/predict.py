"""The predict command: JSON lines in, JSON lines out."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Literal

from litebert.bundled import BUNDLED
from litebert.commands.flags import SWITCH
from litebert.predict.backend import Threads
from litebert.predict.batches import DEFAULT_MAX_TOKENS


def predict(
    task: str,
    *,
    model: str = BUNDLED,
    input: Path | None = None,
    runtime: Literal["auto", "torch", "onnx"] = "auto",
    threads: Threads = "auto",
    max_tokens: int = DEFAULT_MAX_TOKENS,
    depth: int | None = None,
    force_depth: Annotated[bool, SWITCH] = False,
    pooling: Literal["mean", "cls"] = "mean",
    top_k: int = 5,
    strict: Annotated[bool, SWITCH] = False,
) -> None:
    """Answer rows with a model: JSON lines in, JSON lines out, in the same order.

    A row that cannot be answered gives {"error": ...} in its place; how many there were is said
    on standard error.

    Examples:
        litebert predict sst2 --model runs/sst2/model --input reviews.jsonl
        echo '{"question": "Who?", "context": "Ann sat."}' | litebert predict squad1 --model qa/
        echo '{"text": "It rained.", "text_pair": "We hid."}' | litebert predict order
        litebert predict embed --model exported/ --input texts.csv --pooling cls

    Args:
        task: a task's name or .toml file; or order, embed, fill-mask.
        model: a model folder, an ONNX folder, a run folder or a hub name; default: the small model
            that comes with litebert.
        input: a .jsonl, .csv, .tsv or .parquet file (also compressed); JSON lines on standard
            input if left out.
        runtime: what runs the model; auto takes an ONNX file if there is one.
        threads: of the processor; auto: all.
        max_tokens: padded tokens of one batch.
        depth: layers to run, for a model fine-tuned with --train-exits.
        force_depth: run at that depth even if the model was not trained for it.
        pooling: how embed makes one vector of a text.
        top_k: candidates of fill-mask.
        strict: stop at a row that cannot be answered, after the answers to those before it.
    """
    from litebert.common.progress import progress
    from litebert.common.rows import read_rows_or_errors
    from litebert.predict.predictor import Predictor, answer_rows

    predictor = Predictor.load(
        model, runtime, threads, max_tokens=max_tokens, depth=depth, force_depth=force_depth
    )
    source = "standard input" if input is None else str(input)
    rows = read_rows_or_errors(input or "/dev/stdin", None if input else "jsonl")
    answers = answer_rows(
        predictor, task, rows, source=source, strict=strict, pooling=pooling, top_k=top_k
    )
    num_rows = num_failed = 0
    with progress("predicting", unit="rows") as bar:
        for answer in answers:
            print(json.dumps(answer, ensure_ascii=False))
            num_rows += 1
            num_failed += "error" in answer
            bar.advance()
    if num_failed:
        print(f"{num_failed:,} of {num_rows:,} rows could not be answered", file=sys.stderr)
