"""Answers to rows, as predict and embed give them: written or printed, and failures counted."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from litebert.common.progress import progress

Answer = dict[str, object]


def give_answers(
    answers: Iterable[tuple[str, Answer]],
    out: Path | None,
    write: Callable[[Path, Iterator[Answer]], None],
    *,
    doing: str,
    what: str,
    failure: str,
    total: int | None = None,
) -> None:
    """Write answers to a file, or print them as JSON lines; exit status 1 if every row failed.

    Args:
        answers: where each row stands (empty: its error says it), and its answer.
        out: the file; None: standard output.
        write: writes the file, all or nothing.
        doing: what is done, for the progress line.
        what: what was written, for the last line.
        failure: what rows with an error lack.
        total: rows, if known.
    """
    num_rows = num_failed = 0
    first_error = ""

    def counted() -> Iterator[Answer]:
        nonlocal num_rows, num_failed, first_error
        with progress(doing, total, "rows") as bar:
            for place, answer in answers:
                num_rows += 1
                if "error" in answer:
                    num_failed += 1
                    first_error = first_error or f"{place}{answer['error']}"
                bar.advance()
                yield answer

    if out is None:
        for answer in counted():
            print(json.dumps(answer, ensure_ascii=False))
    else:
        write(out, counted())
        print(f"wrote {num_rows:,} {what} to {out}", file=sys.stderr)
    if num_failed:
        failed = f"{num_failed:,} of {num_rows:,} rows {failure}"
        print(f"{failed}; the first: {first_error}", file=sys.stderr)
        if num_failed == num_rows:
            sys.exit(1)
