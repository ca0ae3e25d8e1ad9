"""The commands that ask a model: predict (rows in, answers out), embed and fill-mask."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from itertools import tee
from pathlib import Path

from litebert.bundled import BUNDLED, SENTENCES
from litebert.commands.flags import AsJson
from litebert.common import rows as tables
from litebert.common.delimited import NumberedRecords, Record
from litebert.common.errors import DataError
from litebert.common.files import plain_suffix
from litebert.common.limits import STANDARD_INPUT
from litebert.common.ownership import keep_files
from litebert.common.progress import progress
from litebert.model.config import Pooling
from litebert.predict.backend import Runtime, Threads
from litebert.predict.batches import DEFAULT_MAX_TOKENS
from litebert.predict.predictor import Json, Predictor, answer_rows
from litebert.tasks.custom import CustomTask
from litebert.tasks.registry import find_task


def predict(
    task: str | None = None,
    *,
    model: str | None = None,
    input: Path | None = None,
    out: Path | None = None,
    with_input: bool = False,
    runtime: Runtime = "auto",
    threads: Threads = "auto",
    max_tokens: int = DEFAULT_MAX_TOKENS,
    depth: int | None = None,
    force_depth: bool = False,
    pooling: Pooling | None = None,
    top_k: int = 5,
    strict: bool = False,
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
            that comes with litebert, for embed that of sentence vectors (bundled-sentences).
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
    model = model or (SENTENCES if task == "embed" else BUNDLED)
    if out is not None:
        tables.check_writable(out)  # known before the work is done
        keep_files(out, [("--input", input), ("--model", model), ("the task file", task)])
    predictor = Predictor.load(model, runtime, threads, max_tokens=max_tokens, depth=depth, force_depth=force_depth)
    found = find_task(task) if task is not None and Path(task).is_file() else None
    rows = _rows(input, found if isinstance(found, CustomTask) else None)
    ask = partial(answer_rows, predictor, task, strict=strict, pooling=pooling, top_k=top_k)

    def shown(answer: Json, row: Record | DataError) -> Json:
        is_repeated = with_input and not isinstance(row, DataError)
        return {"input": row, **answer} if is_repeated else answer

    _give_answers(ask, rows, shown, input, out, tables.write_rows, ("predicting", "rows", "could not be answered"))


def embed(
    *,
    model: str = SENTENCES,
    input: Path | None = None,
    out: Path | None = None,
    column: str = "text",
    dimensions: int | None = None,
    pooling: Pooling | None = None,
    runtime: Runtime = "auto",
    threads: Threads = "auto",
    max_tokens: int = DEFAULT_MAX_TOKENS,
    strict: bool = False,
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
            of sentence vectors that comes with litebert (bundled-sentences).
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
    rows = tables.text_lines(input) if input is not None and plain_suffix(input) == ".txt" else _rows(input)
    texts = ((number, row if isinstance(row, DataError) else {**row, "text": row.get(column)}) for number, row in rows)
    ask = partial(answer_rows, predictor, "embed", strict=strict, pooling=pooling, dimensions=dimensions)

    def shown(answer: Json, row: Record | DataError) -> Json:
        text = None if isinstance(row, DataError) else row["text"]
        return answer if out is None else {**answer, "text": text}

    write = partial(tables.write_vectors, size=dimensions or predictor.purpose.folder.config.hidden_size)
    total = None if input is None else tables.count_rows(input)
    _give_answers(ask, texts, shown, input, out, write, ("embedding", "vectors", "have no vector"), total)


def fill_mask(
    text: str,
    *,
    model: str = BUNDLED,
    top_k: int = 5,
    depth: int | None = None,
    force_depth: bool = False,
    json_: AsJson = False,
) -> None:
    """Print the likeliest words for each [MASK] of a text; +ing continues the word before it.

    Examples:
        litebert fill-mask "Paris is the [MASK] of France."
        litebert fill-mask --model runs/tiny/model "Paris is the [MASK] of France."
        litebert fill-mask --model exported/ "The [MASK] rose over the [MASK]." --top-k 3 --json

    Args:
        text: a text with one or more [MASK].
        model: a model folder, an ONNX folder, a run folder or a hub name; default: the small model
            that comes with litebert.
        top_k: candidates for each mask.
        depth: layers to run, for a model trained for it.
        force_depth: run at that depth even if the model was not trained for it.
    """
    filled = Predictor.load(model, depth=depth, force_depth=force_depth).fill_mask([text], top_k)[0]
    if json_:
        print(json.dumps(asdict(filled), ensure_ascii=False))
        return
    for number, candidates in enumerate(filled.masks, start=1):
        if len(filled.masks) > 1:
            print(f"mask {number}")
        shown = [f"{'+' if c.is_continuation else ''}{c.token}" for c in candidates]
        for candidate, word in zip(candidates, shown, strict=True):
            bar = "█" * max(1, round(40 * candidate.score))
            print(f"  {word:<{max(map(len, shown))}}  {candidate.score:6.1%}  {bar}")
    print(filled.text)


def _rows(input: Path | None, task: CustomTask | None = None) -> NumberedRecords:
    """Return the rows of a table, or of standard input; a line says how the table is written."""
    if input is None:
        return tables.read_rows_or_errors(STANDARD_INPUT, "jsonl")
    if task is not None:  # written as the task's own files are
        about, rows = task.describe_rows(input), task.rows(input, by_name=True)
    else:
        about = tables.describe_table(input, tables.row_format(input))
        rows = tables.read_rows_or_errors(input)
    for line in about:
        print(line, file=sys.stderr)
    return rows


def _give_answers(
    ask: Callable[..., Iterator[Json]],
    rows: NumberedRecords,
    shown: Callable[[Json, Record | DataError], Json],
    input: Path | None,
    out: Path | None,
    write: Callable[[Path, Iterator[Json]], None],
    words: tuple[str, str, str],
    total: int | None = None,
) -> None:
    """Answer rows into a file, or print JSON lines; exit status 1 if every row failed.

    The words on standard error: what is done, what was written, what rows with an error are.
    """
    source, (doing, what, failure) = "standard input" if input is None else str(input), words
    asked, kept = tee(rows)
    num_rows, num_failed, first_error = 0, 0, ""

    def answers() -> Iterator[Json]:
        nonlocal num_rows, num_failed, first_error
        with progress(doing, total, "rows") as bar:
            for answer, (number, row) in zip(ask(asked, source=source), kept, strict=True):
                num_rows += 1
                if "error" in answer:
                    num_failed += 1
                    first_error = first_error or f"{source}:{number}: {answer['error']}"
                bar.advance()
                yield shown(answer, row)

    if out is None:
        for answer in answers():
            print(json.dumps(answer, ensure_ascii=False))
    else:
        write(out, answers())
        print(f"wrote {num_rows:,} {what} to {out}", file=sys.stderr)
    if num_failed:
        print(f"{num_failed:,} of {num_rows:,} rows {failure}; the first: {first_error}", file=sys.stderr)
        if num_failed == num_rows:
            sys.exit(1)
