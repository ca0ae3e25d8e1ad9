"""What can be asked of a model: each question knows its inputs and how to read the answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

import numpy as np

from litebert.common.errors import InputError
from litebert.predict.backend import BEAM_OUTPUTS
from litebert.predict.features import Feature, FloatArray, Row, segments
from litebert.predict.results import Candidate, FilledText, LayerPath, SentenceOrder
from litebert.tasks.base import Example, Form, Prediction
from litebert.tasks.base import Feature as TaskFeature
from litebert.text.tokenizer import WORD_MARK, Tokenizer

Item = TypeVar("Item")
Result = TypeVar("Result")
Other = TypeVar("Other")

Pooling = Literal["mean", "cls"]

_PLACEHOLDER = "\ue000"  # private use: no vocabulary has it, so it becomes a piece of its own
_PLACEHOLDER_BYTES = [f"<0x{byte:02X}>" for byte in _PLACEHOLDER.encode()]  # with byte fallback
_MASK = re.compile(r"\s*\[MASK\]", re.IGNORECASE)


@dataclass(frozen=True)
class Question(Generic[Result]):
    """One thing to ask, ready for any batch.

    The predictor and the server run the same questions; they differ only in who forms the batch.

    Args:
        features: the model inputs.
        outputs: the model outputs that ``decode`` reads.
        decode: turns one row per feature into the answer.

    Example:
        >>> question = fill_mask("Paris is the [MASK] of France.", tokenizer, 512, top_k=5)
        >>> question.features[0].masked
        (4,)
    """

    features: Sequence[Feature]
    outputs: tuple[str, ...]
    decode: Callable[[Sequence[Row]], Result]

    @property
    def num_tokens(self) -> int:
        """Tokens of all inputs, without padding."""
        return sum(map(len, self.features))

    def then(self, change: Callable[[Result], Other]) -> Question[Other]:
        """Return the same question with its answer changed by a function."""
        return Question(self.features, self.outputs, lambda rows: change(self.decode(rows)))

    def reading(self, change: Callable[[Row], Row]) -> Question[Result]:
        """Return the same question with each row of the model changed before it is decoded."""
        return Question(
            self.features, self.outputs, lambda rows: self.decode([change(row) for row in rows])
        )


def together(questions: Sequence[Question[Result]]) -> Question[list[Result]]:
    """Join questions for the same outputs into one, answered as a list."""

    def decode(rows: Sequence[Row]) -> list[Result]:
        answers, start = [], 0
        for question in questions:
            stop = start + len(question.features)
            answers.append(question.decode(rows[start:stop]))
            start = stop
        return answers

    features = [feature for question in questions for feature in question.features]
    outputs = dict.fromkeys(name for question in questions for name in question.outputs)
    return Question(features, tuple(outputs), decode)


def fill_mask(text: str, tokenizer: Tokenizer, max_length: int, top_k: int) -> Question[FilledText]:
    """Ask for the words that may stand at each ``[MASK]`` of a text."""
    check_top_k(top_k)
    body = _encode_with_masks(text, tokenizer)
    masked = tuple(i + 1 for i, token in enumerate(body) if token == tokenizer.mask_id)
    if not masked:
        shown = text if len(text) <= 60 else text[:57] + "..."
        raise InputError(f"the text has no [MASK]: {shown!r}; write one where a word is missing")
    plain = segments(body, None, tokenizer.cls_id, tokenizer.sep_id)
    feature = Feature(plain.input_ids, plain.token_type_ids, masked)
    _check_length(feature, max_length)

    def decode(rows: Sequence[Row]) -> FilledText:
        ids = list(feature.input_ids)
        masks = [_candidates(logits, tokenizer, top_k) for logits in rows[0]["masked_logits"]]
        for position, candidates in zip(masked, masks, strict=True):
            ids[position] = candidates[0].token_id
        return FilledText(tokenizer.decode(ids[1:-1]), masks)

    return Question([feature], ("masked_logits",), decode)


def check_top_k(top_k: int) -> None:
    """Raise InputError if no candidates are asked for."""
    if top_k < 1:
        raise InputError(f"top_k is {top_k}; ask for at least 1 candidate")


def order(
    first: str, second: str, tokenizer: Tokenizer, max_length: int
) -> Question[SentenceOrder]:
    """Ask whether two sentences stand in their original order."""
    ids = tokenizer.encode_batch([first, second])
    if not all(ids):
        raise InputError("sentence order needs two sentences; one of them is empty")
    feature = segments(ids[0], ids[1], tokenizer.cls_id, tokenizer.sep_id)
    _check_length(feature, max_length)

    def decode(rows: Sequence[Row]) -> SentenceOrder:
        # Label 0 of the head means in order, label 1 swapped.
        in_order, swapped = softmax(rows[0]["sop_logits"]).tolist()
        return SentenceOrder(in_order, swapped)

    return Question([feature], ("sop_logits",), decode)


def embed(
    text: str, tokenizer: Tokenizer, max_length: int, pooling: Pooling
) -> Question[FloatArray]:
    """Ask for one vector: the mean over the tokens, or the state at ``[CLS]``; float32 [H].

    ``[CLS]`` and ``[SEP]`` count as tokens; a text beyond ``max_length`` is cut at its end.
    """

    def decode(rows: Sequence[Row]) -> FloatArray:
        hidden_SH = rows[0]["last_hidden_state"]
        vector = hidden_SH.mean(axis=0) if pooling == "mean" else hidden_SH[0]
        return np.array(vector, np.float32)

    return Question([plain(text, tokenizer, max_length)], ("last_hidden_state",), decode)


def layer_path(text: str, tokenizer: Tokenizer, max_length: int) -> Question[LayerPath]:
    """Ask how far each block moves the tokens of a text: Figure 1 of the paper, for one input."""

    def decode(rows: Sequence[Row]) -> LayerPath:
        states_SLH = rows[0]["hidden_states"].astype(np.float64)
        before, after = states_SLH[:, :-1], states_SLH[:, 1:]
        distance_SL = np.linalg.norm(after - before, axis=-1)
        lengths_SL = np.linalg.norm(before, axis=-1) * np.linalg.norm(after, axis=-1)
        cosine_SL = (before * after).sum(axis=-1) / np.maximum(lengths_SL, 1e-12)
        angle_SL = np.degrees(np.arccos(np.clip(cosine_SL, -1, 1)))
        return LayerPath(distance_SL.mean(axis=0).tolist(), angle_SL.mean(axis=0).tolist())

    return Question([plain(text, tokenizer, max_length)], ("hidden_states",), decode)


def task_question(
    form: Form, example: Example, tokenizer: Tokenizer, max_length: int, outputs: tuple[str, ...]
) -> Question[Prediction]:
    """Ask a task's question about one example, with the task's own features and decoding.

    Args:
        form: the kind of task.
        example: what ``form.parse`` or a task's reader made.
        tokenizer: the model's.
        max_length: longest input in tokens.
        outputs: the model outputs that the form decodes.
    """
    task_features = form.features([example], tokenizer, max_length)
    features = [row for task_feature in task_features for row in _rows(task_feature)]

    def decode(rows: Sequence[Row]) -> Prediction:
        answers, start = [], 0
        for task_feature in task_features:
            stop = start + len(task_feature.rows)
            answers.append(_merge_choices(rows[start:stop]))
            start = stop
        return form.decode([example], task_features, answers)[0]

    return Question(features, outputs, decode)


def form_outputs(form: Form, available: frozenset[str]) -> tuple[str, ...]:
    """Return the outputs that a form decodes, for a model with these outputs."""
    if form.kind == "token_classification":
        return ("token_logits",)
    if form.kind == "span_extraction":
        has_beam = "answer_logits" in available
        return BEAM_OUTPUTS if has_beam else ("start_logits", "end_logits")
    return ("logits",)


def softmax(logits: FloatArray) -> FloatArray:
    """Return the probabilities over the last axis; float32, same shape."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True), np.float32)


def _candidates(logits_V: FloatArray, tokenizer: Tokenizer, top_k: int) -> list[Candidate]:
    top_k = min(top_k, len(logits_V))
    best = np.argpartition(-logits_V, top_k - 1)[:top_k]
    best = best[np.argsort(-logits_V[best], kind="stable")]
    scores = softmax(logits_V)[best]
    candidates = []
    for token_id, score in zip(best.tolist(), scores.tolist(), strict=True):
        piece = tokenizer.id_to_piece(token_id)
        word = piece.replace(WORD_MARK, " ").strip()
        candidates.append(Candidate(word or piece, token_id, score))
    return candidates


def _encode_with_masks(text: str, tokenizer: Tokenizer) -> list[int]:
    """Encode a text, with the mask id wherever it says ``[MASK]``.

    A mask stands for a whole piece with its word mark, so the text is encoded in one go with a
    placeholder for each mask: what follows directly (a comma, say) gets no word mark of its own,
    just as when a word is masked in pretraining.
    """
    marked = _MASK.sub(f" {_PLACEHOLDER}", text.replace(_PLACEHOLDER, ""))
    pieces, tokens = tokenizer.pieces(marked), tokenizer.encode(marked)
    if _PLACEHOLDER_BYTES[0] in pieces:
        _join_bytes(pieces, tokens)
    ids: list[int] = []
    for piece, token in zip(pieces, tokens, strict=True):
        if _PLACEHOLDER not in piece:
            ids.append(token)
            continue
        if ids and tokenizer.id_to_piece(ids[-1]) == WORD_MARK:
            ids.pop()
        ids.append(tokenizer.mask_id)
        if not piece.endswith(_PLACEHOLDER):
            ids.append(token)  # unknown characters right after the mask share its piece
    return ids


def _join_bytes(pieces: list[str], tokens: list[int]) -> None:
    """Make one piece again of each placeholder that was written as bytes."""
    size = len(_PLACEHOLDER_BYTES)
    for start in reversed(range(len(pieces) - size + 1)):
        if pieces[start : start + size] == _PLACEHOLDER_BYTES:
            pieces[start : start + size] = [_PLACEHOLDER]
            tokens[start + 1 : start + size] = []


def plain(text: str, tokenizer: Tokenizer, max_length: int) -> Feature:
    """Return one text as a feature, cut at its end if it is too long."""
    ids = tokenizer.encode(text)[: max_length - 2]
    if not ids:
        raise InputError("the text is empty; write some words")
    return segments(ids, None, tokenizer.cls_id, tokenizer.sep_id)


def _check_length(feature: Feature, max_length: int) -> None:
    if len(feature) > max_length:
        raise InputError(
            f"the text has {len(feature)} tokens, the model reads {max_length}; shorten it"
        )


def _rows(feature: TaskFeature) -> list[Feature]:
    forbidden = feature.forbidden() if feature.passage is not None else ()
    return [
        Feature(row.ids.tolist(), row.token_type_ids().tolist(), forbidden=tuple(forbidden))
        for row in feature.rows
    ]


def _merge_choices(rows: Sequence[Row]) -> Row:
    """Join the single logits of several choices; a feature of one row stays as it is."""
    if len(rows) == 1:
        return rows[0]
    return {"logits": np.concatenate([row["logits"] for row in rows])}
