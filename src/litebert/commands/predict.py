"""The predict command: rows of a file in, answers out."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat, tee
from pathlib import Path
from typing import Annotated, Literal

from litebert.bundled import BUNDLED
from litebert.commands.answers import Answer, give_answers
from litebert.commands.flags import SWITCH
from litebert.common.errors import DataError
from litebert.common.ownership import keep_files
from litebert.common.rows import check_writable, read_rows_or_errors, write_rows
from litebert.predict.backend import Threads
from litebert.predict.batches import DEFAULT_MAX_TOKENS
from litebert.predict.predictor import Predictor, answer_rows
from litebert.tasks.custom import CustomTask
from litebert.tasks.registry import find_task


def predict(
    task: str | None = None,
    *,
    model: str = BUNDLED,
    input: Path | None = None,
    out: Path | None = None,
    with_input: Annotated[bool, SWITCH] = False,
    runtime: Literal["auto", "torch", "onnx"] = "auto",
    threads: Threads = "auto",
    max_tokens: int = DEFAULT_MAX_TOKENS,
    depth: int | None = None,
    force_depth: Annotated[bool, SWITCH] = False,
    pooling: Literal["mean", "cls"] | None = None,
    top_k: int = 5,
    strict: Annotated[bool, SWITCH] = False,
) -> None:
    """Answer rows with a model, in their order: a table or JSON lines in, the same out.

    A row that cannot be answered gives {"error": ...} in its place; how many there were is
    reported on standard error, and if it was every row the exit status is 1.

    Examples:
        litebert predict --model runs/tickets/model --input new.csv --out answers.csv
        litebert predict sst2 --model runs/sst2/model --input reviews.jsonl
        echo '{"question": "Who?", "context": "Ann sat."}' | litebert predict squad1 --model qa/
        echo '{"text": "It rained.", "text_pair": "We hid."}' | litebert predict order
        litebert predict embed --model exported/ --input texts.csv --pooling cls

    Args:
        task: a task's name or .toml file; or order, embed, fill-mask; left out, what the model
            was fine-tuned for. Rows may have the columns of the task's own files.
        model: a model folder, an ONNX folder, a run folder or a hub name; default: the small model
            that comes with litebert.
        input: a .jsonl, .csv, .tsv, .parquet or .conll file (also compressed); JSON lines on
            standard input if left out.
        out: write the answers to this .csv, .tsv, .jsonl or .parquet file, all or nothing;
            JSON lines on standard output if left out.
        with_input: repeat each row before its answer: input.text, ... in a table.
        runtime: what runs the model; auto takes an ONNX file if there is one.
        threads: of the processor; auto: all.
        max_tokens: padded tokens of one batch.
        depth: layers to run, for a model fine-tuned with --train-exits.
        force_depth: run at that depth even if the model was not trained for it.
        pooling: how embed makes one vector of a text; default: as the folder says, else mean.
        top_k: candidates of fill-mask.
        strict: stop at a row that cannot be answered, after the answers to those before it.
    """
    if out is not None:
        check_writable(out)  # known before the work is done
        keep_files(out, [("--input", input), ("--model", model), ("the task file", task)])
    predictor = Predictor.load(
        model, runtime, threads, max_tokens=max_tokens, depth=depth, force_depth=force_depth
    )
    source = "standard input" if input is None else str(input)
    found = find_task(task) if task is not None and Path(task).is_file() else None
    if input is not None and isinstance(found, CustomTask):
        rows = found.rows(input, by_name=True)  # written as the task's own files are
    else:
        rows = read_rows_or_errors(input or "/dev/stdin", None if input else "jsonl")
    asked, kept = tee(rows) if with_input else (rows, repeat((0, {})))
    answers = answer_rows(
        predictor, task, asked, source=source, strict=strict, pooling=pooling, top_k=top_k
    )

    def answered() -> Iterator[tuple[str, Answer]]:
        for answer, (_, row) in zip(answers, kept, strict=False):
            is_shown = with_input and not isinstance(row, DataError)
            yield "", {"input": row, **answer} if is_shown else answer

    give_answers(
        answered(), out, write_rows, doing="predicting", what="rows",
        failure="could not be answered",
    )  # fmt: skip
