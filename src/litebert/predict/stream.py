"""Answer rows of a file or of standard input, one JSON object each, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict

from litebert.common.errors import DataError, LitebertError
from litebert.predict import questions
from litebert.predict.predictor import Predictor
from litebert.predict.questions import Pooling, Question
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
    """Answer numbered rows in bounded memory.

    Args:
        predictor: the loaded model.
        task: a task's name or file, or one of :data:`GENERAL`. ``order`` reads ``text`` and
            ``text_pair``, ``embed`` and ``fill-mask`` read ``text``.
        rows: row number and columns, or what is wrong with the row.
        source: name of the input, for error lines.
        strict: stop at a row that cannot be answered, after the answers to those before it;
            otherwise its answer is ``{"error": ...}``, so that answers stay in step with the rows.
        pooling: how ``embed`` makes one vector of a text.
        top_k: candidates of ``fill-mask``.

    Yields:
        One answer per row, with the row's ``id`` if it has one.
    """
    ask = _asker(predictor, task, pooling, top_k)

    def asked() -> Iterator[Question[Json]]:
        for number, row in rows:
            record: Record = {} if isinstance(row, DataError) else row
            try:
                if isinstance(row, DataError):
                    raise row
                question = ask(record)
            except LitebertError as error:
                if strict:
                    raise DataError(f"{source}:{number}: {error}") from None
                question = _failed(str(error))
            yield _with_id(question, record)

    yield from predictor.stream(asked())


def _asker(
    predictor: Predictor, task: str, pooling: Pooling, top_k: int
) -> Callable[[Record], Question[Json]]:
    """Return what makes a question of one record; a model without the head is refused here."""
    tokenizer, length = predictor.tokenizer, predictor.max_length
    if task == "order":
        predictor.require(("sop_logits",))
        return lambda record: questions.order(
            required_text(record, "text"), required_text(record, "text_pair"), tokenizer, length
        ).then(asdict)
    if task == "embed":
        return lambda record: questions.embed(
            required_text(record, "text"), tokenizer, length, pooling
        ).then(lambda vector: {"embedding": vector.tolist()})
    if task == "fill-mask":
        predictor.require(("masked_logits",))
        questions.check_top_k(top_k)
        return lambda record: questions.fill_mask(
            required_text(record, "text"), tokenizer, length, top_k
        ).then(asdict)
    found = find_task(task)
    form, task_length = predictor.form_for(found), predictor.length_for(found)
    return lambda record: predictor.question(record, form, task_length)


def _failed(message: str) -> Question[Json]:
    return Question((), (), lambda rows: {"error": message})


def _with_id(question: Question[Json], record: Record) -> Question[Json]:
    if "id" not in record:
        return question
    identity: Json = {"id": record["id"]}
    return question.then(lambda answer: identity | answer)
