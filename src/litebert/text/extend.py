"""One vocabulary in terms of another, by the pieces' texts: old pieces for a new one's, an old one with more pieces."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator

from litebert.common.errors import DataError
from litebert.text.spiece import SentencePieceTokenizer
from litebert.text.tokenizer import Tokenizer, open_tokenizer
from litebert.text.words import WORD_MARK

_LEAST_GAIN = 0.1  # by how much an added piece is likelier than the old pieces it stands for


class OldPieces:
    """What the pieces of other vocabularies are in one that a model was trained with."""

    def __init__(self, old: Tokenizer) -> None:
        self.old = old
        words = [i for i in range(old.vocab_size) if i not in old.special_ids]
        self.known = {old.spell(index): index for index in reversed(words)}
        self.exact = {old.id_to_piece(index): index for index in words}

    def of(self, other: Tokenizer, piece: int) -> list[int]:
        """The old piece with the same text and word mark, or else those of its text, inside a word too if there are."""
        is_marked, text = other.spell(piece)
        twin = self.exact.get(other.id_to_piece(piece))  # text alone may stand twice: "▁", "▁▁"
        if twin is None or self.old.spell(twin) != (is_marked, text):
            twin = self.known.get((is_marked, text))
        if twin is not None:
            return [twin]
        ids = self.old.encode(text)
        if ids and not is_marked:
            _, first = self.old.spell(ids[0])
            inside = [self.known[False, first]] if (False, first) in self.known else ids[:1]
            ids = [*(inside if first else ()), *ids[1:]]
        return ids


def extend_tokenizer(old: Tokenizer, learnt: SentencePieceTokenizer, number: int) -> Tokenizer:
    """Add the frequent pieces of another vocabulary that save most pieces; old ids stay."""
    pieces, found = OldPieces(old), list[tuple[float, float, bool, str, list[int]]]()
    for index in set(range(learnt.vocab_size)) - set(learnt.special_ids):
        (is_marked, text), score = learnt.spell(index), learnt.processor.get_score(index)
        ids = pieces.of(learnt, index)
        is_one_word = not any(old.spell(part)[0] for part in ids[1:])
        saved = max(len(ids) - 1, int(old.unk_id in ids))
        if saved and text and is_one_word:
            found.append((-saved * math.exp(score), score, is_marked, text, ids))
    if not found:
        raise DataError("the old vocabulary has all pieces of the text: use --keep-vocabulary")
    added = sorted(found)[:number]

    def scored(scores: list[float]) -> Iterator[tuple[str, float]]:
        """Yield pieces with the log-probability of their text, but more than their old pieces'."""
        for _, score, is_marked, text, ids in added:
            yield WORD_MARK * is_marked + text, max(score, sum(scores[index] for index in ids) + _LEAST_GAIN)

    if isinstance(old, SentencePieceTokenizer):
        scores = [old.processor.get_score(index) for index in range(old.vocab_size)]
        # The pieces of a serialised model are one repeated field: more may follow at its end.
        return open_tokenizer(old.model + b"".join(_entry(*row) for row in scored(scores)), old.settings)
    parts = json.loads(old.model)
    vocabulary = parts["model"]["vocab"]
    if isinstance(vocabulary, dict):
        texts = [t if m else f"##{t}" for _, _, m, t, _ in added]
        vocabulary |= {text: old.vocab_size + place for place, text in enumerate(texts)}
    elif len(vocabulary) == old.vocab_size:
        vocabulary += map(list, scored([score for _, score in vocabulary]))
    else:
        raise DataError("the old vocabulary has pieces outside its list: learn a new one instead")
    return open_tokenizer(json.dumps(parts, ensure_ascii=False).encode(), old.settings)


def _entry(piece: str, score: float) -> bytes:
    """A piece of a serialised SentencePiece model: field 1, in it text (1) and score (2)."""
    text = piece.encode()
    body = b"\x0a" + bytes([len(text)]) + text + b"\x15" + struct.pack("<f", score)
    return b"\x0a" + bytes([len(body)]) + body
