"""Answer rows of a file or of standard input, one JSON object each, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial

import numpy as np

from litebert.common.errors import DataError, LitebertError
from litebert.predict import questions
from litebert.predict.predictor import Predictor
from litebert.predict.questions import FilledText, Pooling, Question, SentenceOrder
from litebert.tasks.base import Outputs
from litebert.tasks.forms.requests import required_text
from litebert.tasks.registry import find_task

Record = Mapping[str, object]
Json = dict[str, object]

GENERAL = ("order", "embed", "fill-mask")
"""What can be asked without a fine-tuned model, beside the names of tasks."""


def answer_rows(
    predictor: Predictor,
    task: str,
    rows: Iterable[tuple[int, Record | DataError]],
    *,
    source: str = "input",
    strict: bool = False,
    pooling: Pooling = "mean",
    top_k: int = 5,
) -> Iterator[Json]:
    """Answer numbered rows in bounded memory; an answer has the row's ``id`` if that has one.

    Args:
        predictor: the loaded model.
        task: a task's name or file, or one of :data:`GENERAL`. ``order`` reads ``text`` and
            ``text_pair``, ``embed`` and ``fill-mask`` read ``text``.
        rows: row number and columns, or what is wrong with the row.
        source: name of the input, for error lines.
        strict: stop at a row that cannot be answered, after the answers to those before it;
            otherwise its answer is ``{"error": ...}``, so that answers stay in step with the rows.
        pooling: of ``embed``.
        top_k: of ``fill-mask``.
    """
    ask = _asker(predictor, task, pooling, top_k)
    identities: deque[Json] = deque()  # of the rows that were taken and not answered yet

    def asked() -> Iterator[Question[object]]:
        for number, row in rows:
            record: Record = {} if isinstance(row, DataError) else row
            try:
                if isinstance(row, DataError):
                    raise row
                question = ask(record)
            except LitebertError as error:
                if strict:
                    raise DataError(f"{source}:{number}: {error}") from None
                question = Question((), (), partial(_failure, str(error)))
            identities.append({"id": record["id"]} if "id" in record else {})
            yield question

    for answer in predictor.stream(asked()):
        yield identities.popleft() | _json(answer)


def _asker(
    predictor: Predictor, task: str, pooling: Pooling, top_k: int
) -> Callable[[Record], Question[object]]:
    """Return what makes a question of one record; a model without the head is refused here."""
    tokenizer, length = predictor.tokenizer, predictor.max_length
    if task == "order":
        predictor.backend.info.require(("sop_logits",))
        return lambda record: questions.order(
            required_text(record, "text"), required_text(record, "text_pair"), tokenizer, length
        )
    if task == "embed":
        return lambda record: questions.embed(
            required_text(record, "text"), tokenizer, length, pooling
        )
    if task == "fill-mask":
        predictor.backend.info.require(("masked_logits",))
        questions.check_top_k(top_k)
        return lambda record: questions.fill_mask(
            required_text(record, "text"), tokenizer, length, top_k
        )
    found = find_task(task)
    form, task_length = predictor.form_for(found), predictor.purpose.length_for(found)
    return lambda record: predictor.question(record, form, task_length)


def _failure(message: str, said: Sequence[Outputs]) -> Json:
    """Answer a row that could not be asked."""
    return {"error": message}


def _json(answer: object) -> Json:
    """Return an answer as JSON values."""
    if isinstance(answer, dict):
        return answer
    if isinstance(answer, np.ndarray):
        return {"embedding": answer.tolist()}
    assert isinstance(answer, (FilledText, SentenceOrder)), "one of the general answers"
    return asdict(answer)
