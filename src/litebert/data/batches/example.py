"""What a training example is: its settings, the vocabulary it needs, and the batch it comes in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from litebert.common.config import check_range
from litebert.common.errors import ConfigError
from litebert.text.tokenizer import Tokenizer
from litebert.text.words import Borders, WordRule

Ints = npt.NDArray[np.int64]

Task = Literal["sop", "nsp", "both", "none"]
Rules = Literal["paper", "official", "balanced"]
WordChoice = Literal["auto", "official", "unicode"]


@dataclass(frozen=True)
class MaskConfig:
    """Which tokens are predicted and what stands in their place."""

    rate: float = 0.15
    """share of an example's tokens, specials counted, that is predicted"""
    max_predictions: int | None = None
    """most predicted tokens of one example; the official code used 20"""
    max_ngram: int = 3
    """longest run of words masked together; n words come with probability proportional to 1/n"""
    whole_words: bool = True
    """mask all pieces of a word or none; false makes every piece its own word"""
    words: WordChoice = "auto"
    """words of English letters as in the official code, or of any script's by Unicode; auto: as \
in the official code where the tokenizer normalizes as it does"""
    replace: Literal["token", "span"] = "token"
    """choose 80 % [MASK], 10 % random, 10 % kept for each token, or once for a whole run"""

    def __post_init__(self) -> None:
        if not 0 < self.rate < 1:
            raise ConfigError(f"mask.rate {self.rate} is not a share; choose one between 0 and 1")
        check_range(self, "1 or more", "max_predictions", table="mask", most=1 << 20)
        check_range(self, "1 or more", "max_ngram", table="mask", most=1_000)


@dataclass(frozen=True)
class ExampleConfig:
    """How documents become examples, and examples batches."""

    length: int = 512
    """longest example in tokens, specials included"""
    micro_batch_size: int = 32
    """examples of full length in a batch; a batch of shorter ones holds more, for equal tokens"""
    task: Task = "sop"
    """sentence task: order of two segments, BERT's next sentence, both at once (a third each in \
order, swapped, from elsewhere; the label says in order or not), or one segment and no task"""
    rules: Rules = "paper"
    """pairs and masks as the paper states them, with the official code's departures, or as the \
paper's with half of the documents cut from their end, so that lengths do not tell the order"""
    short_probability: float = 0.1
    """probability of a shorter example: per example, or per document and epoch (official)"""
    mask: MaskConfig = field(default_factory=MaskConfig)
    """which tokens are predicted"""
    positions: int = 0
    """half of the batches begin somewhere within this many positions instead of at the first, so \
that examples shorter than the model's positions train all of them; 0: none does"""
    stretch_tokens: int = 1 << 18
    """tokens of a stretch of whole documents, the unit that is shuffled across the corpus"""
    buffer_stretches: int = 32
    """stretches held in memory together; their examples are shuffled and grouped by length"""

    def __post_init__(self) -> None:
        if self.length < 8:
            raise ConfigError(f"length {self.length} is too short for two segments; use 8 or more")
        check_range(self, "1 or more", "length", "micro_batch_size", most=1 << 20)
        check_range(self, "1 or more", "stretch_tokens", most=1 << 32)
        check_range(self, "0 or more", "positions", most=1 << 20)
        check_range(self, "2 or more", "buffer_stretches", most=1 << 20)
        check_range(self, "0 to 1", "short_probability")

    @property
    def num_specials(self) -> int:
        """Special tokens of an example: [CLS] A [SEP] B [SEP], or [CLS] A [SEP]."""
        return 2 if self.task == "none" else 3

    @property
    def batch_tokens(self) -> int:
        """Tokens, padding included, that a micro-batch should have."""
        return self.micro_batch_size * self.length


@dataclass(frozen=True)
class Vocabulary:
    """What drawing examples needs to know of the tokenizer."""

    word_starts: Borders  # [V]: the piece begins a word (bool), or when it does (uint8, by Unicode)
    pad_id: int = 0
    cls_id: int = 2
    sep_id: int = 3
    mask_id: int = 4

    @property
    def size(self) -> int:
        """Number of pieces."""
        return len(self.word_starts)

    @classmethod
    def of(cls, tokenizer: Tokenizer, words: WordChoice = "auto") -> Vocabulary:
        """Take what is needed from a tokenizer."""
        ids = (tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id)
        return cls(tokenizer.word_borders(word_rule(tokenizer, words)), *ids)


def word_rule(tokenizer: Tokenizer, words: WordChoice) -> WordRule:
    """The rule for whole words that a choice leads to."""
    return tokenizer.word_rule if words == "auto" else words


@dataclass(frozen=True)
class Batch:
    """One micro-batch of B examples of nearly equal length, padded to the longest, S."""

    input_ids: Ints  # int64 [B, S]: with masks drawn, padded with the pad id
    token_type_ids: Ints  # int64 [B, S]: 0 for [CLS] A [SEP] and padding, 1 for B [SEP]
    lengths: Ints  # int64 [B]: tokens of each example, specials included
    masked_positions: Ints  # int64 [M]: predicted places as ascending indices into the flattened B * S
    masked_labels: Ints  # int64 [M]: the original tokens there
    sentence_labels: Ints  # int64 [B]: 0 in order, 1 swapped (SOP) or from elsewhere (NSP); -100 without a task
    addresses: Ints  # int64 [B, 3]: epoch, buffer and index of each example in its source
    position: int  # the batch's number in the loader's endless order
    source: int = 0  # index of the corpus it comes from
    first_position: int = 0  # the model's position of its first tokens
    vectors: npt.NDArray[np.float32] | None = None  # float32 [B, H]: what a teacher, if there is one, says of each text

    @property
    def num_tokens(self) -> int:
        """Tokens without padding."""
        return int(self.lengths.sum())

    def originals(self) -> Ints:
        """The tokens before they were masked, int64 [B, S]."""
        ids = self.input_ids.copy()
        ids.reshape(-1)[self.masked_positions] = self.masked_labels
        return ids
