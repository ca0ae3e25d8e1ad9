"""What a task is: examples, model inputs, predictions, and the protocols that join them.

    file or request -> Example -> Feature (ids, targets) -> model -> Outputs (numpy) -> Prediction

A :class:`Form` knows one kind of task (classification, spans, ...) and needs no files; a
:class:`Task` adds where the examples come from and how the official script scores them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self

import numpy as np
import numpy.typing as npt

from litebert.model.head_table import HEADS, Head
from litebert.tasks.forms.arrays import mean_log_probability, mean_of
from litebert.tasks.problems import RowProblems

if TYPE_CHECKING:
    from litebert.tasks.forms.requests import Cells
    from litebert.text.tokenizer import Tokenizer

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float32]
Outputs = Mapping[str, FloatArray]
"""What the model said about one feature: outputs of its head by name, without padding and the axis of the batch."""
Said = Sequence[Outputs]
Scores = dict[str, float]


@dataclass(frozen=True, slots=True)
class Answer:
    """A gold answer: its text and where it starts in the passage (-1 if unknown)."""

    text: str
    start: int


Gold = int | float | tuple[int, ...] | tuple[Answer, ...] | None
"""Class or choice index; score; label flags or tag indices; answers (empty: unanswerable)."""
Value = int | float | str | tuple[int, ...]
"""What is predicted: class or choice index; score; label flags or tag indices; answer text."""


@dataclass(frozen=True, slots=True)
class Example:
    """One example of any kind."""

    id: str  # unique within its file
    text: str  # the sentence; the passage (choices, spans); empty if `words` are given
    text_pair: str | None = None  # the second sentence; the question (choices, spans)
    options: tuple[str, ...] = ()  # the choices
    words: tuple[str, ...] = ()  # the words to tag
    gold: Gold = None
    group: str = ""  # a part of the data with a score of its own, such as RACE's middle


Examples = Sequence[Example]


@dataclass(frozen=True, slots=True)
class Row:
    """One sequence for the encoder: ``[CLS] A [SEP]`` or ``[CLS] A [SEP] B [SEP]``."""

    ids: npt.NDArray[np.int32]  # [S]; half the memory of int64: RACE has 350,000 long rows
    second: int  # position of the first token of segment B, or S if there is none

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Passage:
    """Which positions of a row are pieces of the passage, and their raw characters."""

    first: int  # position of the first passage piece in the row
    starts: IntArray  # [n], first raw character of each piece
    ends: IntArray  # [n], one past its last raw character
    max_context: npt.NDArray[np.bool_]  # [n]; False where another window shows more around it


@dataclass(frozen=True, slots=True)
class Feature:
    """The smallest unit with a loss of its own: one row, or one row per choice.

    A target is int64 [] (class, choice), float32 [] (number), float32 [num_labels] (multi-label), int64 [3] (start,
    end, 1 if this window has no answer), int64 [S] (tags, :data:`IGNORED_LABEL` elsewhere) or, of texts to compare,
    float32 [] (a score) or int64 [texts] (numbers that tell the texts apart).
    """

    example: int  # index of its example in the list the features were made from
    rows: tuple[Row, ...]
    target: npt.NDArray[np.generic] | None = None  # None without gold
    passage: Passage | None = None  # spans
    word_positions: IntArray | None = None  # [W], of each word's first piece (tags)
    masked: tuple[int, ...] = ()  # positions whose word the masked-word head predicts
    teacher: FloatArray | None = None  # logits [...], or a vector for each row [texts, H]

    def __len__(self) -> int:
        return max(len(row) for row in self.rows)

    def forbidden(self) -> npt.NDArray[np.bool_]:
        """Return where no answer may start or end: not at ``[CLS]`` and the passage; bool [S]."""
        assert self.passage is not None, "only span features have a passage"
        mask = np.ones(len(self), np.bool_)
        mask[0] = False
        mask[self.passage.first : self.passage.first + len(self.passage.starts)] = False
        return mask


Features = Sequence[Feature]


@dataclass(frozen=True, slots=True)
class Span:
    """An answer in the passage: raw characters ``start`` to ``end``, its text and score."""

    text: str
    start: int
    end: int
    score: float
    probability: float = 0.0


@dataclass(frozen=True, slots=True)
class Prediction:
    """What was predicted for one example."""

    id: str
    value: Value
    scores: tuple[float, ...] = ()  # probability of each label or choice, where there are some
    spans: tuple[Span, ...] = ()  # the n best answers, best first
    no_answer: float | None = None  # probability that the passage holds none, where it may


Predictions = Sequence[Prediction]


@dataclass(frozen=True)
class Form(ABC):
    """A kind of task, with all that kinds differ in; `tasks/forms/kinds.py` lists them."""

    kind: ClassVar[str]  # what `task.json` and a task file call it
    heads: ClassVar[tuple[Head, ...]]  # those that can do it; the first unless another is asked for
    recipe: ClassVar[str]  # recipes small- and base- of `configs/finetune` that it learns by
    columns: ClassVar[tuple[str, ...]]  # those that a task file must name
    main_metric: ClassVar[str]  # the usual score to pick a checkpoint by
    how_bad: ClassVar[str] = "how sure"  # what :meth:`badness` measures
    needs_labels: ClassVar[bool] = False  # whether a task must name its labels
    multi_label: ClassVar[bool] = False  # whether an example may have several labels at once
    one_of_several: ClassVar[bool] = False  # whether the logits are those of classes that exclude each other

    labels: tuple[str, ...] = ()  # in the order of the logits; none for numbers, choices and spans

    @property
    def may_be_unanswerable(self) -> bool:
        """Whether "no answer" is a possible prediction."""
        return False

    @abstractmethod
    def parse(self, record: Mapping[str, object], id: str) -> Example:
        """Make an example of a request; an InputError says what is missing."""

    @abstractmethod
    def features(self, examples: Examples, tokenizer: Tokenizer, max_length: int) -> Features:
        """Make model inputs of at most ``max_length`` tokens, in the order of the examples."""

    @abstractmethod
    def decode(self, examples: Examples, features: Features, said: Said) -> list[Prediction]:
        """Make one prediction per example from one :data:`Outputs` per feature."""

    def condensed(self, outputs: Outputs) -> Outputs:
        """Return what :meth:`decode` needs of a row's outputs, where they are large."""
        return outputs

    def combine(self, outputs: Said) -> Outputs:
        """Average what several models said about the same feature: probabilities of classes, else the outputs."""
        mean = mean_log_probability if self.one_of_several else mean_of
        return {name: mean(outputs, name) for name in outputs[0]}

    @abstractmethod
    def describe(self, example: Example, prediction: Prediction) -> dict[str, object]:
        """Return a prediction as JSON for people: label names, scores, answer text."""

    def head(self, choice: Literal["auto", "paper", "classic"] = "auto") -> Head:
        """Return the head to fine-tune."""
        return self.heads[0]

    def outputs(self, available: frozenset[str]) -> tuple[str, ...]:
        """Return the outputs to ask a model for, of those that it has."""
        names = [HEADS[head].output_names for head in self.heads]
        return next((wanted for wanted in names if available.issuperset(wanted)), names[0])

    def changed(self, **values: Any) -> Self:
        """Return the form with those values that are given, of fields that its kind has."""
        known = {field.name for field in fields(self)}
        given = {name: value for name, value in values.items() if value is not None}
        return replace(self, **{name: given[name] for name in given.keys() & known})

    def fitted(self, train: Examples) -> Self:
        """Return the form as the training data have it, for what a request leaves open."""
        return self

    @abstractmethod
    def read_row(self, cells: Cells, id: str) -> Example:
        """Make an example, without its gold, of a row in a user's file."""

    def read_gold(self, cells: Cells, example: Example) -> Gold:
        """Read what is right from the same row."""
        gold = self.read_label(cells.value("label"), example, cells.separator)
        assert not isinstance(gold, str), "the gold of spans is answers, which they read themselves"
        return gold

    @abstractmethod
    def read_label(self, value: object, example: Example, separator: str) -> Value:
        """Read a label, or a prediction in the same words, as a :class:`Prediction` holds it."""

    def read_prediction(self, value: object, example: Example, separator: str) -> Value:
        """Read what :meth:`written` wrote."""
        return self.read_label(value, example, separator)

    def written(self, prediction: Prediction) -> object:
        """Return a prediction for a file of predictions, by default as people read it."""
        return self.named(None, prediction.value)

    @abstractmethod
    def score(self, examples: Examples, predictions: Predictions) -> Scores:
        """Return all metrics of the kind; fractions, but percent for spans as in SQuAD."""

    def baseline(self, train: Examples, examples: Examples) -> list[Prediction]:
        """Return predictions that look at no text: by default the most frequent gold."""
        gold = Counter(example.gold for example in train).most_common(1)[0][0]
        assert isinstance(gold, (int, tuple))
        value = gold if isinstance(gold, int) else tuple(v for v in gold if isinstance(v, int))
        return [Prediction(example.id, value) for example in examples]

    def badness(self, example: Example, prediction: Prediction) -> float:
        """Return how many labels or tags are wrong, or how sure a wrong prediction is: 0 for a right one."""
        if isinstance(example.gold, tuple) and isinstance(prediction.value, tuple):
            return float(sum(gold != said for gold, said in zip(example.gold, prediction.value, strict=True)))
        return max(prediction.scores, default=1.0) if example.gold != prediction.value else 0.0

    def named(self, example: Example | None, value: object) -> object:
        """Return a gold or predicted value as people read it; a choice needs its example."""
        return value

    def items(self, value: object) -> AbstractSet[tuple[object, ...]]:
        """Return what a gold or predicted value holds, each with its class first."""
        return frozenset()

    def confusion(self, examples: Examples, predictions: Predictions) -> dict[str, object] | None:
        """Return ``labels`` and counts ``matrix[gold][predicted]`` of classes, else None."""
        return None

    def window_counts(self, examples: Examples, features: Features) -> dict[str, int]:
        """Return how many gold answers the windows hold, where inputs are windows."""
        return {}


class Task(Protocol):
    """A form with its data and its official score."""

    @property
    def name(self) -> str:
        """What the command line calls it."""

    @property
    def form(self) -> Form:
        """Features and decoding."""

    @property
    def main_metric(self) -> str:
        """The score that picks the best checkpoint; higher is better."""

    @property
    def max_length(self) -> int:
        """Longest input, special tokens included, unless a recipe says otherwise."""

    @property
    def eval_splits(self) -> tuple[str, ...]:
        """Splits with labels; the first one decides early stopping."""

    @property
    def test_splits(self) -> tuple[str, ...]:
        """Splits to predict for a leaderboard."""

    def read(self, data: Path, split: str, problems: RowProblems) -> list[Example]:
        """Read a split from a folder, or a single file whatever the split's name."""

    def score(self, examples: Examples, predictions: Predictions) -> Scores:
        """Return the official figures, the main metric among them."""

    def write_predictions(self, folder: Path, split: str, examples: Examples, predictions: Predictions) -> list[Path]:
        """Write predictions in the format that the official script or leaderboard reads."""

    def score_file(self, file: Path, data: Path, split: str, null_odds: Path | None, problems: RowProblems) -> Scores:
        """Score a predictions file against a split, with the official script's keys."""
