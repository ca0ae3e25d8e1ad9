"""Answers as spans of a passage: windows with exact characters, and n-best decoding."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from litebert.common.rng import rng
from litebert.model.head_table import Head
from litebert.tasks import base
from litebert.tasks.base import Answer, Example, Examples, Feature, Features, Form, Outputs, Prediction, Said, Span
from litebert.tasks.forms.arrays import SMALLEST_PROBABILITY, mean_of, sigmoid, softmax
from litebert.tasks.forms.requests import Cells, RowError, required_text
from litebert.tasks.forms.rows import encode_unique
from litebert.tasks.squad_metrics import squad1_scores, squad2_scores, token_f1
from litebert.text.tokenizer import Tokenizer

EnsembleRule = Literal["official", "probabilities"]
Candidates = tuple[base.IntArray, base.IntArray, base.FloatArray]
"""First and last positions in the row of a window's spans, and the sums of their two scores."""

_IMPOSSIBLE = -1e30
_GUESSED_WORDS = 3  # about the median answer of SQuAD


@dataclass(frozen=True)
class SpanForm(Form):
    """Question and passage -> the words of the passage that answer, or no answer."""

    kind = "span_extraction"
    heads = ("span", "squad2")
    recipe = "span"
    columns = ("text", "question", "answer")
    main_metric = "f1"

    may_be_unanswerable: bool = False
    stride: int = 128  # pieces between the starts of two windows
    max_question_length: int = 64  # pieces of it that are kept, at most half of the input
    max_answer_length: int = 30  # pieces
    num_best: int = 20  # candidates kept per question
    no_answer_threshold: float = 0.5  # probability above which "no answer" is the prediction
    ensemble: EnsembleRule = "official"  # over the models that hold a span, or one without it gives probability 0

    def head(self, choice: Literal["auto", "paper", "classic"] = "auto") -> Head:
        """Return the paper's head where a question may have no answer, unless told which."""
        paper = self.may_be_unanswerable if choice == "auto" else choice == "paper"
        return "squad2" if paper else "span"

    def parse(self, record: Mapping[str, object], id: str) -> Example:
        """Read ``question`` and ``context``."""
        return Example(id, required_text(record, "context"), required_text(record, "question"))

    def features(self, examples: Examples, tokenizer: Tokenizer, max_length: int) -> Features:
        """Return ``[CLS] question [SEP] window [SEP]`` per window; without the whole answer its target is [CLS]."""
        questions = encode_unique((e.text_pair or "" for e in examples), tokenizer)
        longest = min(self.max_question_length, max_length // 2)
        features: list[Feature] = []
        text: str | None = None
        for index, example in enumerate(examples):
            if example.text != text:  # files keep the questions of a passage together
                text, found = example.text, tokenizer.encode_with_offsets(example.text)
                pieces, begins, ends = np.array((found.ids, found.starts, found.ends), np.int64)
            question = questions[example.text_pair or ""][:longest]
            head = [tokenizer.cls_id, *question, tokenizer.sep_id]
            first, size = len(head), max_length - len(head) - 1
            assert size > 0, f"max_length {max_length} leaves no room beside the question"
            starts = window_starts(len(pieces), size, self.stride)
            answer, gold = _first_answer(example), None
            if answer is not None and answer.start >= 0:
                gold = align(begins, ends, answer.start, answer.start + len(answer.text))
            for start, own in zip(starts, max_context(starts, size, len(pieces)), strict=True):
                part = slice(start, start + size)
                ids = np.array([*head, *pieces[part], tokenizer.sep_id], np.int32)
                target = None if example.gold is None else np.array([0, 0, 1], np.int64)
                if target is not None and gold and start <= gold[0] and gold[1] < start + size:
                    target[:] = gold[0] - start + first, gold[1] - start + first, 0
                window = base.Passage(first, begins[part], ends[part], own)
                features.append(Feature(index, (base.Row(ids, first),), target, window))
        return features

    def decode(self, examples: Examples, features: Features, said: Said) -> list[Prediction]:
        """Take the best span over all windows of each example, or no answer."""
        windows: dict[int, list[tuple[Feature, Outputs]]] = defaultdict(list)
        for feature, output in zip(features, said, strict=True):
            windows[feature.example].append((feature, output))
        return [self._predict(example, windows[index]) for index, example in enumerate(examples)]

    def combine(self, outputs: Said) -> Outputs:
        """Average the scores of spans and of "no answer"."""
        if "start_logits" in outputs[0]:
            return super().combine(outputs)
        if self.ensemble == "official":
            # Apart until each model's surest window is known.
            logits = np.stack([output["answer_logits"] for output in outputs])
            return {**_combine_beams(outputs, np.mean), "answer_logits": logits}

        def mean_probability(found: Sequence[float]) -> float:
            return float(np.log(max(np.exp(found).sum() / len(outputs), SMALLEST_PROBABILITY)))

        mean = mean_of(outputs, "answer_logits")
        return {**_combine_beams(outputs, mean_probability), "answer_logits": mean}

    def describe(self, example: Example, prediction: Prediction) -> dict[str, object]:
        """Return the answer, where it stands, its probability, and the n best."""
        best = [{"text": s.text, "start": s.start, "end": s.end, "score": s.probability} for s in prediction.spans]
        no_answer = {} if prediction.no_answer is None else {"no_answer": prediction.no_answer}
        return {"answer": prediction.value, "best": best, **no_answer}

    def read_row(self, cells: Cells, id: str) -> Example:
        """Read ``text`` (the passage) and ``question``."""
        return Example(id, cells.text("text"), cells.text("question"))

    def read_gold(self, cells: Cells, example: Example) -> base.Gold:
        """Read ``answer`` and, if it is named, ``answer_start``; else its first occurrence."""
        text, context = cells.text("answer"), example.text
        if not text:
            if self.may_be_unanswerable:
                return ()
            raise RowError("empty answer", "set unanswerable = true if questions may have none")
        start = context.find(text)
        if cells.has("answer_start"):
            given = cells.value("answer_start")
            try:
                wanted = int(str(given))
            except ValueError:
                raise RowError("bad answer start", f"{given!r} is not a whole number") from None
            start = wanted if wanted >= 0 and context.startswith(text, wanted) else start
        if start < 0:
            raise RowError("answer not in its passage", repr(text))
        return (Answer(text, start),)

    def read_label(self, value: object, example: Example, separator: str) -> str:
        """Read an answer's text."""
        return str(value)

    def named(self, example: Example | None, value: object) -> object:
        """Return the answer, or all the gold answers."""
        return [answer.text for answer in value] if isinstance(value, tuple) else value

    def score(self, examples: Examples, predictions: base.Predictions) -> base.Scores:
        """Return SQuAD's figures in percent."""
        scores = squad2_scores if self.may_be_unanswerable else squad1_scores
        return scores({e.id: gold_texts(e) for e in examples}, {p.id: str(p.value) for p in predictions})

    def baseline(self, train: Examples, examples: Examples) -> list[Prediction]:
        """Say "no answer" where that is possible, else three words at random."""
        if self.may_be_unanswerable:
            return [Prediction(example.id, "", no_answer=1.0) for example in examples]
        return [_guess(example, index) for index, example in enumerate(examples)]

    def badness(self, example: Example, prediction: Prediction) -> float:
        """Return how sure an answer is that shares no word with the gold."""
        value = str(prediction.value)
        if any(text == value or token_f1(text, value) > 0 for text in gold_texts(example) or [""]):
            return 0.0
        if not value:
            return prediction.no_answer or 0.0
        return prediction.spans[0].probability if prediction.spans else 1.0

    def window_counts(self, examples: Examples, features: Features) -> dict[str, int]:
        """Compare the target of each window with the first gold answer of its example.

        Of the answers, ``exact`` ones come back from some window character for character, ``widened`` ones start or end
        inside a piece, so that the target is the whole pieces, and no window holds all of a ``lost`` one.
        """
        recovered: dict[int, bool] = {}
        for feature in features:
            answer = _first_answer(examples[feature.example])
            if answer is None or feature.target is None or feature.target[2]:
                continue
            assert feature.passage is not None, "a span feature has a passage"
            start, end = (int(place) - feature.passage.first for place in feature.target[:2])
            found = (feature.passage.starts[start], feature.passage.ends[end])
            is_exact = found == (answer.start, answer.start + len(answer.text))
            recovered[feature.example] = recovered.get(feature.example, False) or is_exact
        answerable, exact = sum(_first_answer(e) is not None for e in examples), sum(recovered.values())
        return {"exact": exact, "widened": len(recovered) - exact, "lost": answerable - len(recovered)}

    def _predict(self, example: Example, windows: Sequence[tuple[Feature, Outputs]]) -> Prediction:
        found: dict[tuple[int, int], float] = {}  # characters of a span -> its best score
        no_answer_logits = []  # one for each window, or for each window and model
        for feature, output in windows:
            passage = feature.passage
            assert passage is not None, "a span feature has a passage"
            if "start_logits" in output:
                firsts, lasts, scores = self._classic_candidates(passage, output)
                no_answer_logits.append(output["start_logits"][0] + output["end_logits"][0])
            else:
                firsts, lasts, scores = self._beam_candidates(passage, output)
                no_answer_logits.append(output["answer_logits"])
            begins, ends = passage.starts[firsts - passage.first], passage.ends[lasts - passage.first]
            for begin, end, score in zip(begins.tolist(), ends.tolist(), scores.tolist(), strict=True):
                is_empty = begin >= end  # a piece that is only a space
                if not is_empty and ((begin, end) not in found or score > found[begin, end]):
                    found[begin, end] = score
        ordered = sorted(found.items(), key=lambda item: -item[1])[: self.num_best]
        sure = softmax(np.array([score for _, score in ordered])).tolist() if ordered else []
        best = tuple(
            Span(example.text[begin:end], begin, end, score, probability)
            for ((begin, end), score), probability in zip(ordered, sure, strict=True)
        )
        answer = best[0].text if best else ""
        if not self.may_be_unanswerable:
            return Prediction(example.id, answer, spans=best)
        # The window most sure of an answer decides, as in the official code.
        logit = float(np.min(no_answer_logits, axis=0).mean())
        if "start_logits" in windows[0][1]:
            logit -= best[0].score if best else _IMPOSSIBLE
        no_answer = float(sigmoid(logit))
        value = "" if no_answer > self.no_answer_threshold else answer
        return Prediction(example.id, value, spans=best, no_answer=no_answer)

    def _classic_candidates(self, passage: base.Passage, output: Outputs) -> Candidates:
        """Search all spans of allowed length; the official code looks at 20 x 20 ends only."""
        first, num_pieces = passage.first, len(passage.starts)
        if num_pieces == 0:
            return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32)
        longest, pieces = min(self.max_answer_length, num_pieces), slice(first, first + num_pieces)
        start_scores = np.where(passage.max_context, output["start_logits"][pieces], _IMPOSSIBLE)
        padded = np.full(num_pieces + longest - 1, _IMPOSSIBLE)
        padded[:num_pieces] = output["end_logits"][pieces]
        ends_by_length = np.lib.stride_tricks.sliding_window_view(padded, longest)
        flat = (start_scores[:, None] + ends_by_length).ravel()  # [pieces, longest]: start and length - 1
        count = min(self.num_best, flat.size)
        chosen = np.argpartition(-flat, count - 1)[:count]
        chosen = chosen[flat[chosen] > _IMPOSSIBLE / 2]
        starts, offsets = np.divmod(chosen, longest)
        return starts + first, starts + offsets + first, flat[chosen].astype(np.float32)

    def _beam_candidates(self, passage: base.Passage, output: Outputs) -> Candidates:
        ends, first = output["end_top_index"].astype(np.int64).ravel(), passage.first
        starts = np.repeat(output["start_top_index"].astype(np.int64), output["end_top_index"].shape[1])
        scores = (output["start_top_log_probs"][:, None] + output["end_top_log_probs"]).ravel()
        valid = (starts >= first) & (ends < first + len(passage.starts)) & (ends >= starts)
        valid &= ends - starts < self.max_answer_length
        valid[valid] &= passage.max_context[starts[valid] - first]
        return starts[valid], ends[valid], scores[valid]


def gold_texts(example: Example) -> list[str]:
    """Return the gold answers; empty for an unanswerable question."""
    assert isinstance(example.gold, tuple), "the gold of a span example is a tuple of answers"
    return [answer.text for answer in example.gold if isinstance(answer, Answer)]


def _guess(example: Example, index: int) -> Prediction:
    words = example.text.split() or [""]
    start = int(rng(0, "guessed span", index).integers(max(1, len(words) - _GUESSED_WORDS + 1)))
    text = " ".join(words[start : start + _GUESSED_WORDS])
    return Prediction(example.id, text, spans=(Span(text, 0, 0, 0.0, 1.0),))


def _first_answer(example: Example) -> Answer | None:
    """Return the answer to learn; None for an unanswerable question."""
    answers = example.gold if isinstance(example.gold, tuple) else ()
    return next((answer for answer in answers if isinstance(answer, Answer)), None)


def _combine_beams(outputs: Said, score: Callable[[Sequence[float]], float]) -> Outputs:
    """The spans of several models, each with a score of what those that hold it say."""
    said: dict[tuple[int, int], list[float]] = defaultdict(list)
    for output in outputs:
        for row, start in enumerate(output["start_top_index"].astype(np.int64).tolist()):
            for column, end in enumerate(output["end_top_index"][row].astype(np.int64).tolist()):
                said[start, end].append(output["start_top_log_probs"][row] + output["end_top_log_probs"][row, column])
    spans = np.array(list(said), np.float32)
    scores = np.array([score(found) for found in said.values()], np.float32)
    return {
        "start_top_index": spans[:, 0],
        "start_top_log_probs": np.zeros(len(spans), np.float32),
        "end_top_index": spans[:, 1:],
        "end_top_log_probs": scores[:, None],
    }


def align(starts: base.IntArray, ends: base.IntArray, start: int, end: int) -> tuple[int, int] | None:
    """Return the first and last piece that hold characters of ``[start, end)``; None if all vanish in normalisation."""
    touching = np.flatnonzero((starts < end) & (ends > start))
    return (int(touching[0]), int(touching[-1])) if len(touching) else None


def window_starts(num_pieces: int, size: int, stride: int) -> list[int]:
    """Return the first piece of each window; the last window reaches the end.

    >>> window_starts(10, size=6, stride=3), window_starts(6, size=6, stride=3)
    ([0, 3, 6], [0])
    """
    step = min(size, stride)
    return list(range(0, max(1, num_pieces - size + step), step))


def max_context(starts: Sequence[int], size: int, num_pieces: int) -> list[npt.NDArray[np.bool_]]:
    """Return for each window which of its pieces no other window shows with more context.

    The context of a piece is the smaller of what lies to its left and to its right in the window,
    plus a hundredth of the window's length (BERT's rule); the first window wins a tie.
    """
    firsts = np.array(starts)[:, None]
    lengths = np.minimum(size, num_pieces - firsts)
    before = np.arange(num_pieces) - firsts  # [windows, pieces]
    after = lengths - 1 - before
    context = np.where(np.minimum(before, after) < 0, -1.0, np.minimum(before, after) + 0.01 * lengths)
    owner = context.argmax(axis=0)
    return [owner[start : start + size] == index for index, start in enumerate(starts)]
