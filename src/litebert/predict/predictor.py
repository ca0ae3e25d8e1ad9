"""Ask a model folder questions from Python or in rows of a file; answers are in their order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

import numpy as np

from litebert.common.config import check_range
from litebert.common.errors import DataError, InputError, LitebertError
from litebert.interop.folder import resolve
from litebert.model.config import Pooling
from litebert.predict import questions
from litebert.predict.backend import Backend, Device, Runtime, Threads, open_backend, run_batch, run_features
from litebert.predict.batches import DEFAULT_MAX_TOKENS
from litebert.predict.inputs import join_rows, single_rows
from litebert.predict.purpose import Purpose
from litebert.predict.questions import FilledText, LayerPath, Question, SentenceOrder
from litebert.tasks.base import Feature, FloatArray, Form, Outputs, Task
from litebert.tasks.custom import example_of_row
from litebert.tasks.forms.requests import Columns, required_text
from litebert.tasks.registry import find_task, input_columns
from litebert.text.tokenizer import Tokenizer

Result = TypeVar("Result")
Record = Mapping[str, object]
Json = dict[str, object]

_GROUP_TOKENS = 65_536  # sorted by length together when a stream is predicted: bounds the memory
_GROUP_QUESTIONS = 4096  # at most: rows that cannot be answered have no tokens


class Predictor:
    """A loaded model with its tokenizer."""

    def __init__(
        self,
        backend: Backend,
        tokenizer: Tokenizer,
        purpose: Purpose,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        depth: int | None = None,
    ) -> None:
        """Join the parts; :meth:`load` finds them in a folder."""
        self.backend, self.tokenizer, self.purpose = backend, tokenizer, purpose
        self.max_tokens, self.depth = max_tokens, depth
        check_range(self, "1 or more", "max_tokens", most=1 << 24)
        self.max_length = backend.info.max_length
        self.pads = backend.info.pads

    @classmethod
    def load(
        cls,
        folder: Path | str,
        runtime: Runtime = "auto",
        threads: Threads | None = None,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        depth: int | None = None,
        force_depth: bool = False,
        device: Device = "cpu",
    ) -> Predictor:
        """Load a model folder (torch) or an ONNX folder (onnxruntime, no torch needed).

        Args:
            runtime: ``auto`` takes the ONNX file if there is one.
            threads: of the processor; ``auto`` and None let the runtime decide.
            depth: layers to run; None runs all. Needs a model trained for it (`train_exits`), or ``force_depth``.
            device: where it runs; ``auto`` takes a GPU if there is one.
        """
        folder = resolve(folder)
        backend = open_backend(folder, runtime, threads, device=device)
        purpose = Purpose.read(folder)
        if depth is not None:
            if backend.info.has_fixed_depth:
                raise InputError(f"depth {depth}: that of an ONNX model is fixed; export it with `--depth {depth}`")
            purpose.check_depth(depth, force_depth)
        return cls(backend, Tokenizer.load(folder), purpose, max_tokens, depth)

    def warm_up(self) -> None:
        """Run the model once: the first call pays for what is set up late."""
        usual, outputs = "last_hidden_state", self.backend.info.outputs
        # A classifier that other tools exported gives nothing but its logits.
        self.run_batch([questions.plain("The first call.", self)], [usual if usual in outputs else min(outputs)])

    def fill_mask(self, texts: Sequence[str], top_k: int = 5) -> list[FilledText]:
        """Return the likeliest words at each ``[MASK]`` of each text."""
        return self.ask(questions.fill_mask(text, self, top_k) for text in texts)

    def order(self, pairs: Sequence[tuple[str, str]]) -> list[SentenceOrder]:
        """Return the probability that each pair stands in its original order."""
        return self.ask(questions.order(first, second, self) for first, second in pairs)

    def embed(self, texts: Sequence[str], pooling: Pooling | None = None) -> FloatArray:
        """Return one vector per text, as the folder says or pooled as asked; float32 [texts, H]."""
        rule = self.purpose.vector_rule(pooling)
        return np.stack(self.ask(questions.embed(text, self, rule) for text in texts))

    def layer_path(self, text: str) -> LayerPath:
        """Return how far each block moves the tokens of a text (Figure 1 of the paper)."""
        return self.ask([questions.layer_path(text, self)])[0]

    def predict(self, records: Iterable[Record], form: Form | None = None, max_length: int | None = None) -> list[Json]:
        """Answer records with a fine-tuned model.

        Args:
            records: what the form reads: ``text`` and ``text_pair``; ``text``, ``question`` and
                ``options``; ``question`` and ``context``; or ``words``.
            form: the kind of task; by default the one of the model's head.
            max_length: longest input in tokens; by default what the model was fine-tuned with.
        """
        form = self.form() if form is None else form
        return self.ask(self.question(record, form, max_length) for record in records)

    def question(
        self, record: Record, form: Form, max_length: int | None = None, columns: Columns = MappingProxyType({})
    ) -> Question[Json]:
        """Prepare one record of a task, by its columns' names; its answer is JSON for people."""
        info = self.backend.info
        outputs = form.outputs(info.outputs)
        info.require(outputs)
        example = example_of_row(form, record, columns, str(record.get("id", "0")))
        features = form.features([example], self.tokenizer, self.purpose.length(max_length))

        def described(said: Sequence[Outputs]) -> Json:
            condensed = [form.condensed(outputs) for outputs in said]
            (prediction,) = form.decode([example], features, join_rows(features, condensed))
            return form.describe(example, prediction)

        return Question(single_rows(features), outputs, described)

    def form(self) -> Form:
        """Return the form that the model was fine-tuned for, or else the one of its head."""
        return self.purpose.form()

    def form_for(self, task: Task) -> Form:
        """Return how to ask the model about a task; an InputError says that it cannot be."""
        info = self.backend.info
        info.require(task.form.outputs(info.outputs))
        return self.purpose.form_for(task)

    def ask(self, asked: Iterable[Question[Result]]) -> list[Result]:
        """Answer many questions; answers are in their order whatever the batches."""
        return list(self.stream(asked))

    def stream(self, asked: Iterable[Question[Result]]) -> Iterator[Result]:
        """Answer questions in order as they come, in bounded memory; if an error ends them, those before it first."""
        for group in _groups(asked):
            yield from self._answer(group)

    def _answer(self, group: Sequence[Question[Result]]) -> list[Result]:
        """Answer a group, each question once its last input has run: what the model says is too large to be kept."""
        features = [feature for question in group for feature in question.features]
        outputs = tuple(dict.fromkeys(name for question in group for name in question.outputs))
        owners = [index for index, question in enumerate(group) for _ in question.features]
        said: list[dict[int, Outputs]] = [{} for _ in group]
        answers = {at: asked.decode(()) for at, asked in enumerate(group) if not asked.features}
        for place, heard in run_features(
            self.backend, features, outputs, self.tokenizer.pad_id, self.max_tokens, self.depth
        ):
            owner = owners[place]
            own, question = said[owner], group[owner]
            own[place] = heard
            if len(own) == len(question.features):
                answers[owner] = question.decode([own[place] for place in sorted(own)])
                own.clear()
        return [answers[index] for index in range(len(group))]

    def run_batch(self, features: Sequence[Feature], outputs: Sequence[str]) -> list[Outputs]:
        """Run features that somebody chose for one batch; what the model says about each."""
        self.backend.info.require(outputs)
        return run_batch(self.backend, features, outputs, self.tokenizer.pad_id, self.depth)


def _groups(asked: Iterable[Question[Result]]) -> Iterator[list[Question[Result]]]:
    """Cut a stream of questions into groups; an error of the stream comes after the last."""
    group: list[Question[Result]] = []
    num_tokens = 0
    try:
        for question in asked:
            group.append(question)
            num_tokens += question.num_tokens
            if num_tokens >= _GROUP_TOKENS or len(group) >= _GROUP_QUESTIONS:
                yield group
                group, num_tokens = [], 0
    except LitebertError:
        yield group
        raise
    yield group


def answer_rows(
    predictor: Predictor,
    task: str | None,
    rows: Iterable[tuple[int, Record | DataError]],
    *,
    source: str = "input",
    strict: bool = False,
    pooling: Pooling | None = None,
    dimensions: int | None = None,
    top_k: int = 5,
) -> Iterator[Json]:
    """Answer numbered rows in bounded memory; an answer has the row's ``id`` if that has one.

    Args:
        task: a task's name or file; None: the one that the model was fine-tuned for. Rows may
            have the columns of the task's own files. Or what needs no fine-tuned model: ``order``
            reads ``text`` and ``text_pair``, ``embed`` and ``fill-mask`` read ``text``.
        rows: row number and columns, or what is wrong with the row.
        source: name of the input, for error lines.
        strict: stop at a row that cannot be answered, after the answers to those before it; otherwise its
            answer is ``{"error": ...}``, so that answers stay in step with the rows.
        dimensions: numbers to keep of a vector (``embed``); scaled again if the folder says so.
    """
    ask = _asker(predictor, task, pooling, dimensions, top_k)
    begun: deque[Json] = deque()  # answers to the rows that were taken and not answered yet

    def asked() -> Iterator[Question[object]]:
        for number, row in rows:
            record: Record = {} if isinstance(row, DataError) else row
            answer = {"id": record["id"]} if "id" in record else {}
            try:
                if isinstance(row, DataError):
                    raise row
                question = ask(record)
            except LitebertError as error:
                if strict:
                    raise DataError(f"{source}:{number}: {error}") from None
                answer["error"] = str(error)
                question = Question((), (), lambda said: {})
            begun.append(answer)
            yield question

    for answer in predictor.stream(asked()):
        yield begun.popleft() | _json(answer)


def _asker(
    predictor: Predictor, task: str | None, pooling: Pooling | None, dimensions: int | None, top_k: int
) -> Callable[[Record], Question[object]]:
    """Return what makes a question of one record; a model without the head is refused here."""
    if task == "order":
        predictor.backend.info.require(("sop_logits",))
        return lambda row: questions.order(required_text(row, "text"), required_text(row, "text_pair"), predictor)
    if task == "embed":
        folder = predictor.purpose.folder
        size = folder.config.hidden_size
        if dimensions is not None and not 1 <= dimensions <= size:
            raise InputError(f"dimensions is {dimensions}: vectors of {folder.path} have 1 to {size}")
        rule = replace(predictor.purpose.vector_rule(pooling), dimensions=dimensions)
        return lambda record: questions.embed(required_text(record, "text"), predictor, rule)
    if task == "fill-mask":
        predictor.backend.info.require(("masked_logits",))
        questions.check_top_k(top_k)
        return lambda record: questions.fill_mask(required_text(record, "text"), predictor, top_k)
    if task is None:
        form, own = predictor.form(), predictor.purpose.task
        columns: Columns = {} if own is None else own.columns
        return lambda record: predictor.question(record, form, None, columns)
    found = predictor.purpose.named(find_task(task))
    form, length, columns = predictor.form_for(found), predictor.purpose.length_for(found), input_columns(found)
    return lambda record: predictor.question(record, form, length, columns)


def _json(answer: object) -> Json:
    """Return an answer as JSON values."""
    if isinstance(answer, dict):
        return answer
    if isinstance(answer, np.ndarray):
        return {"embedding": answer.tolist()}
    assert isinstance(answer, (FilledText, SentenceOrder)), "one of the general answers"
    return asdict(answer)
