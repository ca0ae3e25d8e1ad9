"""Ask a model folder questions from Python: batched by length, answered in input order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from litebert.common.errors import InputError, LitebertError
from litebert.interop.folder import ModelFolder, resolve
from litebert.predict import questions
from litebert.predict.backend import Backend, Runtime, open_backend
from litebert.predict.depth import check_depth
from litebert.predict.features import Feature, FloatArray, Row, pad, split
from litebert.predict.packing import fill, pack
from litebert.predict.questions import Pooling, Question
from litebert.predict.results import FilledText, LayerPath, SentenceOrder
from litebert.tasks.base import Example, Form, Prediction, Task
from litebert.tasks.forms.choices import ChoiceForm
from litebert.tasks.forms.spans import SpanForm
from litebert.tasks.forms.tags import TagForm
from litebert.tasks.forms.texts import TextForm
from litebert.tasks.scoring import are_unnamed, in_order, label_order
from litebert.tasks.task_file import TaskFile
from litebert.text.tokenizer import Tokenizer

Result = TypeVar("Result")

DEFAULT_MAX_TOKENS = 2048
"""Padded tokens of one batch: enough to fill two cores, few enough to stay in cache."""

_WINDOW_TOKENS = 65_536
"""Tokens that are sorted by length together when a stream is predicted: bounds the memory."""

_WINDOW_QUESTIONS = 4096
"""Questions of a window at most: rows that cannot be answered have no tokens."""


class Predictor:
    """A loaded model with its tokenizer.

    Example:
        >>> predictor = Predictor.load("runs/tiny/model")
        >>> predictor.fill_mask(["Paris is the [MASK] of France."])[0].masks[0][0].token
        'capital'
        >>> Predictor.load("runs/sst2/model").predict([{"text": "a fine film"}])[0]["label"]
        'positive'
    """

    def __init__(
        self,
        backend: Backend,
        tokenizer: Tokenizer,
        labels: tuple[str, ...] = (),
        max_tokens: int = DEFAULT_MAX_TOKENS,
        depth: int | None = None,
        task: TaskFile | None = None,
        multi_label: bool = False,
    ) -> None:
        """Join the parts; :meth:`load` finds them in a folder.

        Args:
            backend: the model.
            tokenizer: the model's.
            labels: names of the classes or tags, in the order of the outputs.
            max_tokens: padded tokens of one batch.
            depth: layers to run; None runs all.
            task: what the model was fine-tuned for, if its folder says so.
            multi_label: whether a classifier without ``task`` gives several labels at once.
        """
        self.backend, self.tokenizer, self.labels = backend, tokenizer, labels
        self.max_tokens, self.depth, self.task = max_tokens, depth, task
        self.multi_label = multi_label
        self.max_length = backend.info.max_length

    @classmethod
    def load(
        cls,
        folder: Path | str,
        runtime: Runtime = "auto",
        threads: int | None = None,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        depth: int | None = None,
        force_depth: bool = False,
    ) -> Predictor:
        """Load a model folder (torch) or an ONNX folder (onnxruntime, no torch needed).

        Args:
            folder: the model folder.
            runtime: ``auto`` takes the ONNX file if there is one.
            threads: processor threads; None lets the runtime decide.
            max_tokens: padded tokens of one batch.
            depth: layers to run; None runs all. Needs a model trained for it (`train_exits`).
            force_depth: run at that depth even if the model was not trained for it.
        """
        folder = resolve(folder)
        backend = open_backend(folder, runtime, threads)
        if depth is not None and backend.info.max_depth is None:
            raise InputError(
                f"depth {depth}: that of an ONNX model is fixed; export it with `--depth {depth}`"
            )
        check_depth(folder, depth, force_depth)
        described, task = ModelFolder(folder), TaskFile.read(folder)
        return cls(
            backend,
            Tokenizer.load(folder),
            described.classes,
            max_tokens,
            depth,
            task,
            described.is_multi_label,
        )

    def warm_up(self) -> None:
        """Run the model once: the first call pays for what is set up late."""
        feature = questions.plain("The first call.", self.tokenizer, self.max_length)
        outputs = self.backend.info.outputs
        # A classifier that other tools exported gives nothing but its logits.
        usual = "last_hidden_state"
        self.rows([feature], [usual if usual in outputs else min(outputs)])

    def fill_mask(self, texts: Sequence[str], top_k: int = 5) -> list[FilledText]:
        """Return the likeliest words at each ``[MASK]`` of each text."""
        return self.ask(
            questions.fill_mask(text, self.tokenizer, self.max_length, top_k) for text in texts
        )

    def order(self, pairs: Sequence[tuple[str, str]]) -> list[SentenceOrder]:
        """Return the probability that each pair stands in its original order."""
        return self.ask(
            questions.order(first, second, self.tokenizer, self.max_length)
            for first, second in pairs
        )

    def embed(self, texts: Sequence[str], pooling: Pooling = "mean") -> FloatArray:
        """Return one vector per text; float32 [len(texts), H]."""
        vectors = self.ask(
            questions.embed(text, self.tokenizer, self.max_length, pooling) for text in texts
        )
        return np.stack(vectors)

    def layer_path(self, text: str) -> LayerPath:
        """Return how far each block moves the tokens of a text (Figure 1 of the paper)."""
        return self.ask([questions.layer_path(text, self.tokenizer, self.max_length)])[0]

    def predict(
        self,
        records: Iterable[Mapping[str, object]],
        form: Form | None = None,
        max_length: int | None = None,
    ) -> list[dict[str, object]]:
        """Answer records with a fine-tuned model.

        Args:
            records: what the form reads: ``text`` and ``text_pair``; ``text``, ``question`` and
                ``options``; ``question`` and ``context``; or ``words``.
            form: the kind of task; by default the one of the model's head.
            max_length: longest input in tokens; by default what the model was fine-tuned with.
        """
        form = self.form() if form is None else form
        return self.ask(self.question(record, form, max_length) for record in records)

    def predictions(
        self, examples: Iterable[Example], form: Form, max_length: int | None = None
    ) -> list[Prediction]:
        """Answer examples that a task read from its files, ready for the task's score."""
        return self.ask(self._task_question(form, example, max_length) for example in examples)

    def task_predictions(
        self, task: Task, examples: Sequence[Example], *, tuned: bool = False
    ) -> list[Prediction]:
        """Answer examples of a task, the way the model was fine-tuned, in the task's labels.

        Args:
            task: where the examples are from; it can score the predictions.
            examples: what to answer.
            tuned: whether the model's threshold for "no answer", tuned on dev, counts, as it does
                for data without labels; scores use the task's own.

        Raises:
            InputError: the model is for another kind of task, or has other labels.
        """
        form, wanted = self.form_for(task), task.form
        order = label_order(form.labels, wanted.labels, task.name)
        if isinstance(form, SpanForm) and isinstance(wanted, SpanForm) and not tuned:
            form = replace(form, no_answer_threshold=wanted.no_answer_threshold)
        length = self.length_for(task)
        return self.ask(
            self._task_question(form, example, length).reading(lambda row: in_order(row, order))
            for example in examples
        )

    def question(
        self, record: Mapping[str, object], form: Form, max_length: int | None = None
    ) -> Question[dict[str, object]]:
        """Prepare one record of a task; its answer is JSON for people."""
        example = form.parse(record, str(record.get("id", "0")))
        question = self._task_question(form, example, max_length)
        return question.then(lambda prediction: form.describe(example, prediction))

    def _task_question(
        self, form: Form, example: Example, max_length: int | None
    ) -> Question[Prediction]:
        outputs = questions.form_outputs(form, self.backend.info.outputs)
        self.require(outputs)
        wished = max_length or (self.task.max_length if self.task else self.max_length)
        length = min(wished, self.max_length)
        return questions.task_question(form, example, self.tokenizer, length, outputs)

    def form_for(self, task: Task) -> Form:
        """Return how to ask and read the model about a task: as its ``task.json`` says.

        The task's own form serves models without that file, with the names that the folder gives
        to its outputs, if it names them. Whether a question may have no answer is the task's to
        say: a SQuAD 2.0 model can be asked SQuAD 1.1's questions.

        Raises:
            InputError: the model is for another kind of task.
        """
        form = task.form
        if self.task is not None and self.task.kind != form.kind:
            raise InputError(
                f"the model was fine-tuned on {self.task.name} ({self.task.kind}), which is not "
                f"what {task.name} needs ({form.kind}); choose another model"
            )
        self.require(questions.form_outputs(form, self.backend.info.outputs))
        own = self.form()
        if self.task is None:
            named = bool(form.labels) and not are_unnamed(own.labels)
            if named and isinstance(form, (TextForm, TagForm)):
                return replace(form, labels=own.labels)
            label_order(own.labels, form.labels, task.name)  # as many, or it is refused
            return form
        if isinstance(own, SpanForm) and isinstance(form, SpanForm):
            return replace(own, may_be_unanswerable=form.may_be_unanswerable)
        return own

    def length_for(self, task: Task) -> int:
        """Return the longest input for a task: what the model was fine-tuned with, if known."""
        return task.max_length if self.task is None else self.task.max_length

    def form(self) -> Form:
        """Return the form that the model was fine-tuned for, or else the one of its head."""
        if self.task is not None:
            return self.task.form()
        match self.backend.info.head:
            case "classification":
                return TextForm(
                    "multi_label" if self.multi_label else "classification", self.labels
                )
            case "regression":
                return TextForm("regression")
            case "multiple_choice":
                return ChoiceForm()
            case "token_classification":
                return TagForm(self.labels)
            case "span":
                return SpanForm()
            case "squad2":
                return SpanForm(may_be_unanswerable=True)
            case head:
                raise InputError(
                    f"this model is for {head}, not for a task; fine-tune it with "
                    "`litebert finetune`, or use fill-mask, order or embed"
                )

    def ask(self, asked: Iterable[Question[Result]]) -> list[Result]:
        """Answer many questions; answers are in their order whatever the batches."""
        return list(self.stream(asked))

    def stream(self, asked: Iterable[Question[Result]]) -> Iterator[Result]:
        """Answer questions as they come, in order, in bounded memory.

        They are collected up to a window of so many tokens or questions, sorted by length inside
        it, and answered. If an error ends the questions, those before it are answered first.
        """
        for window in _windows(asked):
            yield from self._answer(window)

    def _answer(self, window: Sequence[Question[Result]]) -> list[Result]:
        """Answer a window; each question as soon as its last input has run.

        What the model says (every word's logit at each mask, say) is far larger than the answers,
        so it is not kept for the whole window.
        """
        features = [feature for question in window for feature in question.features]
        outputs = tuple(dict.fromkeys(name for question in window for name in question.outputs))
        owners = [index for index, question in enumerate(window) for _ in question.features]
        rows: list[dict[int, Row]] = [{} for _ in window]
        answers = {
            index: question.decode(())
            for index, question in enumerate(window)
            if not question.features
        }
        for place, row in self._run(features, outputs):
            owner = owners[place]
            own, question = rows[owner], window[owner]
            own[place] = row
            if len(own) == len(question.features):
                answers[owner] = question.decode([own[place] for place in sorted(own)])
                own.clear()
        return [answers[index] for index in range(len(window))]

    def rows(self, features: Sequence[Feature], outputs: Sequence[str]) -> list[Row]:
        """Run the model over features in batches of similar length; rows in input order."""
        rows = dict(self._run(features, outputs))
        return [rows[index] for index in range(len(features))]

    def _run(
        self, features: Sequence[Feature], outputs: Sequence[str]
    ) -> Iterator[tuple[int, Row]]:
        """Yield the index of each feature with what the model says, batch by batch."""
        self.require(outputs)
        lengths = [len(feature) for feature in features]
        batches = pack if self.backend.info.pads else fill
        for batch in batches(lengths, self.max_tokens):
            members = [features[index] for index in batch]
            inputs = pad(members, self.tokenizer.pad_id, self.depth)
            yield from zip(batch, split(members, self.backend.run(inputs, outputs)), strict=True)

    def require(self, outputs: Sequence[str]) -> None:
        """Raise InputError if the model has no head for these outputs."""
        missing = [name for name in outputs if name not in self.backend.info.outputs]
        if missing:
            raise InputError(
                f"this model is for {self.backend.info.head} and gives no {missing[0]}; "
                "choose a model with the head for this question"
            )


def _windows(asked: Iterable[Question[Result]]) -> Iterator[list[Question[Result]]]:
    """Cut a stream of questions into windows; an error of the stream comes after the last."""
    window: list[Question[Result]] = []
    num_tokens = 0
    try:
        for question in asked:
            window.append(question)
            num_tokens += question.num_tokens
            if num_tokens >= _WINDOW_TOKENS or len(window) >= _WINDOW_QUESTIONS:
                yield window
                window, num_tokens = [], 0
    except LitebertError:
        yield window
        raise
    yield window
