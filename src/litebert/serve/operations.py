"""What can be asked of a pretrained model: fill a mask, judge sentence order, embed a text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, Protocol, TypeVar

import numpy as np

from litebert.common.errors import InputError
from litebert.serve.features import Feature, FloatArray, Row, segments
from litebert.serve.results import Candidate, FilledText, SentenceOrder
from litebert.text.tokenizer import WORD_MARK, Tokenizer

Item_contra = TypeVar("Item_contra", contravariant=True)
Result_co = TypeVar("Result_co", covariant=True)

Pooling = Literal["mean", "cls"]

_PLACEHOLDER = "\ue000"  # private use: no vocabulary has it, so it becomes a piece of its own
_MASK = re.compile(r"\s*\[MASK\]", re.IGNORECASE)


class Operation(Protocol[Item_contra, Result_co]):
    """One kind of question: item -> features -> (model) -> rows -> result.

    The predictor and the server run the same operations; they differ only in who forms the batch.
    """

    @property
    def outputs(self) -> tuple[str, ...]:
        """The model outputs that :meth:`decode` reads."""

    def features(self, item: Item_contra) -> list[Feature]:
        """Return the model inputs of one item; raise InputError if it cannot be asked."""

    def decode(
        self, item: Item_contra, features: Sequence[Feature], rows: Sequence[Row]
    ) -> Result_co:
        """Turn the model's rows, one per feature, into the result of one item."""


class FillMask:
    """Find the words that may stand at each ``[MASK]`` of a text.

    Example:
        >>> operation = FillMask(tokenizer, max_length=512, top_k=5)
        >>> operation.features("Paris is the [MASK] of France.")[0].masked
        (4,)
    """

    outputs = ("masked_logits",)

    def __init__(self, tokenizer: Tokenizer, max_length: int, top_k: int) -> None:
        self.tokenizer, self.max_length, self.top_k = tokenizer, max_length, top_k

    def features(self, item: str) -> list[Feature]:
        """Return one feature with the positions of its masks."""
        tokenizer = self.tokenizer
        body = _encode_with_masks(item, tokenizer)
        masked = tuple(i + 1 for i, token in enumerate(body) if token == tokenizer.mask_id)
        if not masked:
            raise InputError(
                f"the text has no [MASK]: {_shorten(item)!r}; write one where a word is"
            )
        feature = segments(body, None, tokenizer.cls_id, tokenizer.sep_id)
        _check_length(feature, self.max_length)
        return [Feature(feature.input_ids, feature.token_type_ids, masked)]

    def decode(self, item: str, features: Sequence[Feature], rows: Sequence[Row]) -> FilledText:
        """Rank the vocabulary at each mask."""
        (feature,), (row,) = features, rows
        masks: list[list[Candidate]] = []
        ids = list(feature.input_ids)
        for position, logits_V in zip(feature.masked, row["masked_logits"], strict=True):
            candidates = self._candidates(logits_V)
            masks.append(candidates)
            ids[position] = candidates[0].token_id
        return FilledText(self.tokenizer.decode(ids[1:-1]), masks)

    def _candidates(self, logits_V: FloatArray) -> list[Candidate]:
        top_k = min(self.top_k, len(logits_V))
        best = np.argpartition(-logits_V, top_k - 1)[:top_k]
        best = best[np.argsort(-logits_V[best], kind="stable")]
        scores = softmax(logits_V)[best]
        pieces = [self.tokenizer.id_to_piece(int(i)) for i in best]
        return [
            Candidate(piece.replace(WORD_MARK, " ").strip() or piece, int(i), float(score))
            for piece, i, score in zip(pieces, best, scores, strict=True)
        ]


class Order:
    """Judge whether two sentences stand in their original order.

    Example:
        >>> Order(tokenizer, max_length=512).features(("First this.", "Then that."))
    """

    outputs = ("sop_logits",)

    def __init__(self, tokenizer: Tokenizer, max_length: int) -> None:
        self.tokenizer, self.max_length = tokenizer, max_length

    def features(self, item: tuple[str, str]) -> list[Feature]:
        """Return the pair as one feature."""
        first, second = self.tokenizer.encode_batch(item)
        if not first or not second:
            raise InputError("sentence order needs two sentences; one of them is empty")
        feature = segments(first, second, self.tokenizer.cls_id, self.tokenizer.sep_id)
        _check_length(feature, self.max_length)
        return [feature]

    def decode(
        self, item: tuple[str, str], features: Sequence[Feature], rows: Sequence[Row]
    ) -> SentenceOrder:
        """Label 0 of the head means in order, label 1 swapped."""
        in_order, swapped = softmax(rows[0]["sop_logits"])
        return SentenceOrder(float(in_order), float(swapped))


class Embed:
    """Turn a text into one vector: the mean over its tokens, or the state at ``[CLS]``.

    Example:
        >>> Embed(tokenizer, max_length=512, pooling="mean")
    """

    outputs = ("last_hidden_state",)

    def __init__(self, tokenizer: Tokenizer, max_length: int, pooling: Pooling) -> None:
        self.tokenizer, self.max_length, self.pooling = tokenizer, max_length, pooling

    def features(self, item: str) -> list[Feature]:
        """Return one feature; a text beyond the model's length is cut at its end."""
        ids = self.tokenizer.encode(item)[: self.max_length - 2]
        return [segments(ids, None, self.tokenizer.cls_id, self.tokenizer.sep_id)]

    def decode(self, item: str, features: Sequence[Feature], rows: Sequence[Row]) -> FloatArray:
        """Return a float32 vector [H]; the mean counts ``[CLS]`` and ``[SEP]`` as tokens."""
        hidden_SH = rows[0]["last_hidden_state"]
        return hidden_SH.mean(axis=0) if self.pooling == "mean" else hidden_SH[0].copy()


def softmax(logits: FloatArray) -> FloatArray:
    """Return the probabilities over the last axis; float32, same shape."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True), np.float32)


def _encode_with_masks(text: str, tokenizer: Tokenizer) -> list[int]:
    """Encode a text, with the mask id wherever it says ``[MASK]``.

    A mask stands for a whole piece with its word mark, so the text is encoded in one go with a
    placeholder for each mask: what follows directly (a comma, say) gets no word mark of its own,
    just as when a word is masked in pretraining.
    """
    marked = _MASK.sub(f" {_PLACEHOLDER}", text.replace(_PLACEHOLDER, ""))
    ids: list[int] = []
    pieces = tokenizer.pieces(marked)
    for piece, token in zip(pieces, tokenizer.encode(marked), strict=True):
        if _PLACEHOLDER not in piece:
            ids.append(token)
            continue
        if ids and tokenizer.id_to_piece(ids[-1]) == WORD_MARK:
            ids.pop()
        ids.append(tokenizer.mask_id)
        if piece.rstrip() and not piece.endswith(_PLACEHOLDER):
            ids.append(token)  # unknown characters right after the mask share its piece
    return ids


def _check_length(feature: Feature, max_length: int) -> None:
    if len(feature) > max_length:
        raise InputError(
            f"the text has {len(feature)} tokens, the model reads {max_length}; shorten it"
        )


def _shorten(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
