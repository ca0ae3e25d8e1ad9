"""The embed command: texts in, vectors out."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import tee
from pathlib import Path
from typing import Annotated, Literal

from litebert.bundled import BUNDLED
from litebert.commands.answers import Answer, give_answers
from litebert.commands.flags import SWITCH
from litebert.common.errors import DataError
from litebert.common.files import plain_suffix
from litebert.common.ownership import keep_files
from litebert.common.rows import count_rows, read_rows_or_errors, text_lines, write_vectors
from litebert.predict.backend import Threads
from litebert.predict.batches import DEFAULT_MAX_TOKENS
from litebert.predict.predictor import Predictor, answer_rows


def embed(
    *,
    model: str = BUNDLED,
    input: Path | None = None,
    out: Path | None = None,
    column: str = "text",
    dimensions: int | None = None,
    pooling: Literal["mean", "cls"] | None = None,
    runtime: Literal["auto", "torch", "onnx"] = "auto",
    threads: Threads = "auto",
    max_tokens: int = DEFAULT_MAX_TOKENS,
    strict: Annotated[bool, SWITCH] = False,
) -> None:
    """Write a vector for each text, in their order and in bounded memory.

    A row without a text gives {"error": ...} in its place (NaN in .npy); how many there were is
    reported on standard error, and if it was every row the exit status is 1.

    Examples:
        litebert embed --model runs/near/model --input texts.txt --out vectors.npy
        litebert embed --model runs/near/model --input articles.jsonl --column body --out v.parquet
        echo '{"text": "A first text."}' | litebert embed

    Args:
        model: a model folder, an ONNX folder, a run folder or a hub name; default: the small model
            that comes with litebert.
        input: a .txt file (a text on each line), or .jsonl, .csv, .tsv, .parquet (also
            compressed); JSON lines on standard input if left out.
        out: write to this .parquet (id, text, error, embedding), .jsonl or .npy file, all or
            nothing; JSON lines on standard output if left out.
        column: where the text stands in a table.
        dimensions: numbers to keep of each vector; default: all.
        pooling: how one vector is made of a text; default: as the folder says, else mean.
        runtime: what runs the model; auto takes an ONNX file if there is one.
        threads: of the processor; auto: all.
        max_tokens: padded tokens of one batch.
        strict: stop at a row without a text, after the vectors of those before it.
    """
    if out is not None:
        if out.suffix not in (".parquet", ".jsonl", ".npy"):
            raise DataError(f"cannot write {out}; name a .parquet, .jsonl or .npy file")
        keep_files(out, [("--input", input), ("--model", model)])
    predictor = Predictor.load(model, runtime, threads, max_tokens=max_tokens)
    if input is not None and plain_suffix(input) == ".txt":
        rows = text_lines(input)
    else:
        rows = read_rows_or_errors(input or "/dev/stdin", None if input else "jsonl")
    total = None if input is None else count_rows(input)
    asked, kept = tee(
        (number, row if isinstance(row, DataError) else {**row, "text": row.get(column)})
        for number, row in rows
    )
    source = "standard input" if input is None else str(input)
    answers = answer_rows(
        predictor, "embed", asked, source=source, strict=strict, pooling=pooling,
        dimensions=dimensions,
    )  # fmt: skip

    def answered() -> Iterator[tuple[str, Answer]]:
        for answer, (number, row) in zip(answers, kept, strict=False):
            text = None if isinstance(row, DataError) else row["text"]
            yield f"{source}:{number}: ", answer if out is None else {**answer, "text": text}

    width = dimensions or predictor.purpose.hidden_size
    give_answers(
        answered(), out, lambda path, rows: write_vectors(path, rows, width), doing="embedding",
        what="vectors", failure="have no vector", total=total,
    )  # fmt: skip
