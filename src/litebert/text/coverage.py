"""How much of a text a vocabulary does not know: a wrong one is seen before it is trained on."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from litebert.common.errors import DataError
from litebert.text.tokenizer import Tokenizer
from litebert.text.words import WORD_MARK

WARNS, STOPS = 0.05, 0.5
_BYTE = re.compile("<0x[0-9A-Fa-f]{2}>")


@dataclass(frozen=True)
class Coverage:
    """Tokens that are words or their parts, and how many of them the vocabulary lacks; single bytes are unknown.

    Special pieces, and a word mark alone, which comes before most unknown words, do not count at all.
    """

    tokens: int = 0
    unknown: int = 0

    @classmethod
    def of(cls, rows: Iterable[npt.NDArray[np.integer]], tokenizer: Tokenizer) -> Coverage:
        """Count the piece ids of some rows."""
        counts = np.zeros(tokenizer.vocab_size, np.int64)
        for ids in rows:
            np.add.at(counts, ids, 1)
        unk, unknown, tokens = tokenizer.unk_id, 0, 0
        for index in np.flatnonzero(counts).tolist():
            piece, count = tokenizer.id_to_piece(index), int(counts[index])
            if index == unk or (index not in tokenizer.special_ids and piece != WORD_MARK):
                tokens += count
                unknown += count if index == unk or _BYTE.fullmatch(piece) else 0
        return cls(tokens, unknown)

    def __add__(self, other: Coverage) -> Coverage:
        return Coverage(self.tokens + other.tokens, self.unknown + other.unknown)

    def check(self, what: str, allow_unknown: bool) -> str | None:
        """Return a warning if much is unknown; DataError if most is and that is not allowed."""
        share = self.unknown / max(1, self.tokens)
        if share <= WARNS:
            return None
        unknown = f"{share:.0%} of {self.tokens:,} tokens are unknown to the vocabulary"
        line = f"{what}: {unknown}: it was made for another language or script"
        if share > STOPS and not allow_unknown:
            raise DataError(f"{line}; use a model or tokenizer of the text's language, or --allow-unknown")
        return f"warning: {line}"
