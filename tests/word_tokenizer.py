"""A tokenizer of whole words, so that task tests need no trained vocabulary."""

from __future__ import annotations

import re
from collections.abc import Sequence

from litebert.text.tokenizer import Encoding, Tokenizer


class WordTokenizer(Tokenizer):
    """One piece per word; ids from 5 in the order of appearance."""

    pad_id, unk_id, cls_id, sep_id, mask_id = range(5)

    def __init__(self) -> None:
        self.vocabulary: dict[str, int] = {}

    def encode_with_offsets(self, text: str) -> Encoding:
        encoding = Encoding()
        for match in re.finditer(r"\w+|[^\w\s]", text.lower()):
            encoding.ids.append(self.vocabulary.setdefault(match[0], 5 + len(self.vocabulary)))
            encoding.starts.append(match.start())
            encoding.ends.append(match.end())
        return encoding

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode_with_offsets(text).ids for text in texts]
