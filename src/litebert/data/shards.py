"""Token shards: memory-mapped pieces with sentence and document offsets, and their manifest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from litebert.common.errors import DataError
from litebert.common.files import atomic_path, read_json, sha256_file, write_json

Split = Literal["train", "dev"]
Tokens = NDArray[np.uint16] | NDArray[np.uint32]
Offsets = NDArray[np.int64]

SPLITS: tuple[Split, ...] = ("train", "dev")
MANIFEST = "manifest.json"
TOKENIZER_FOLDER = "tokenizer"
UNIGRAMS = "unigrams.npy"
FORMAT = "litebert-shards"
VERSION = 1
SHARD_TOKENS = 1 << 24

# The .idx file: four uint64 (magic, documents, sentences, tokens), then uint32 offsets.
_MAGIC = int.from_bytes(b"LBIDX\x00\x00\x01", "little")
_HEADER_BYTES = 32
_COUNT_CHUNK_TOKENS = 1 << 22


def token_dtype(vocab_size: int) -> np.dtype[np.uint16] | np.dtype[np.uint32]:
    """Return the smallest little-endian type: uint16 up to 65,535 pieces, else uint32."""
    return np.dtype("<u2") if vocab_size <= 65_535 else np.dtype("<u4")


@dataclass(frozen=True)
class Documents:
    """Whole documents as columns; they are cut, selected and joined without touching tokens.

    Attributes:
        tokens: piece ids of all sentences, uint16 or uint32 [T].
        sentence_lengths: tokens of each sentence, int64 [S].
        document_lengths: sentences of each document, int64 [D].

    Example:
        >>> two = Documents.of([[[5, 6], [7]], [[8]]], vocab_size=10)
        >>> two.select(np.array([False, True])).tokens
        array([8], dtype=uint16)
    """

    tokens: Tokens
    sentence_lengths: Offsets
    document_lengths: Offsets

    @classmethod
    def of(cls, documents: Iterable[Sequence[Sequence[int]]], vocab_size: int) -> Documents:
        """Pack documents given as lists of sentences given as lists of ids."""
        tokens: list[int] = []
        sentence_lengths: list[int] = []
        document_lengths: list[int] = []
        for document in documents:
            document_lengths.append(len(document))
            for sentence in document:
                sentence_lengths.append(len(sentence))
                tokens.extend(sentence)
        return cls(
            np.array(tokens, token_dtype(vocab_size)),
            np.array(sentence_lengths, np.int64),
            np.array(document_lengths, np.int64),
        )

    @property
    def document_tokens(self) -> Offsets:
        """Tokens of each document, int64 [D]."""
        ends = offsets_of(self.sentence_lengths)[offsets_of(self.document_lengths)]
        return np.diff(ends)

    def part(self, first: int, last: int) -> Documents:
        """Return documents ``first`` to ``last`` (exclusive), sharing the tokens' memory."""
        sentences = offsets_of(self.document_lengths)[[first, last]]
        tokens = offsets_of(self.sentence_lengths)[sentences]
        return Documents(
            self.tokens[tokens[0] : tokens[1]],
            self.sentence_lengths[sentences[0] : sentences[1]],
            self.document_lengths[first:last],
        )

    def select(self, keep: NDArray[np.bool_]) -> Documents:
        """Return the documents for which ``keep``, bool [D], is true."""
        if keep.all():
            return self
        keep_sentences = np.repeat(keep, self.document_lengths)
        keep_tokens = np.repeat(keep_sentences, self.sentence_lengths)
        return Documents(
            self.tokens[keep_tokens],
            self.sentence_lengths[keep_sentences],
            self.document_lengths[keep],
        )


def offsets_of(lengths: Offsets) -> Offsets:
    """Turn lengths [N] into offsets [N + 1] that begin with 0."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


@dataclass(frozen=True)
class Shard:
    """One ``.bin`` and ``.idx`` pair. It holds no file open and no data in memory.

    Each property maps or reads its file anew, so that thousands of shards cost nothing until they
    are used; keep what it returns in a variable while you use it.

    Example:
        >>> tokens, sentences, documents = shard.tokens, shard.sentence_offsets, shard.document_offsets
        >>> first_document = tokens[sentences[documents[0]] : sentences[documents[1]]]
    """

    path: Path
    """The shard's files without their suffix."""
    num_documents: int
    num_sentences: int
    num_tokens: int
    dtype: np.dtype[np.uint16] | np.dtype[np.uint32]

    @property
    def bin_path(self) -> Path:
        """The file of tokens."""
        return self.path.with_suffix(".bin")

    @property
    def idx_path(self) -> Path:
        """The file of offsets."""
        return self.path.with_suffix(".idx")

    @property
    def tokens(self) -> Tokens:
        """All piece ids, memory-mapped, uint16 or uint32 [num_tokens]."""
        return cast(Tokens, np.memmap(self.bin_path, self.dtype, "r", shape=(self.num_tokens,)))

    @property
    def sentence_offsets(self) -> Offsets:
        """Where sentences begin in ``tokens``, int64 [num_sentences + 1]."""
        return self._offsets(0, self.num_sentences + 1)

    @property
    def document_offsets(self) -> Offsets:
        """Where documents begin in sentences, int64 [num_documents + 1]."""
        return self._offsets(self.num_sentences + 1, self.num_documents + 1)

    def _offsets(self, first: int, count: int) -> Offsets:
        start = _HEADER_BYTES + 4 * first
        return np.fromfile(self.idx_path, "<u4", count, offset=start).astype(np.int64)

    def check(self) -> None:
        """Raise DataError if a file is missing, cut short or of another shard."""
        expected = {
            self.bin_path: self.num_tokens * self.dtype.itemsize,
            self.idx_path: _HEADER_BYTES + 4 * (self.num_sentences + self.num_documents + 2),
        }
        for path, num_bytes in expected.items():
            found = path.stat().st_size if path.is_file() else None
            if found is None:
                raise DataError(f"{path} is missing; run `litebert prepare` again")
            if found != num_bytes:
                raise DataError(
                    f"{path} has {found} bytes instead of {num_bytes}; run `litebert prepare` again"
                )


class ShardSet:
    """The shards of one split of a prepared corpus.

    Example:
        >>> train = ShardSet.open("shards/", "train")
        >>> train.num_tokens, train.vocab_size
        (51500000, 30000)
        >>> for shard in train.shards:
        ...     longest = np.diff(shard.sentence_offsets).max()
    """

    def __init__(
        self, folder: Path, split: Split, shards: tuple[Shard, ...], vocab_size: int, identity: str
    ) -> None:
        self.folder = folder
        self.split = split
        self.shards = shards
        self.vocab_size = vocab_size
        self.num_documents = sum(shard.num_documents for shard in shards)
        self.num_sentences = sum(shard.num_sentences for shard in shards)
        self.num_tokens = sum(shard.num_tokens for shard in shards)
        self.fingerprint = identity

    @classmethod
    def open(cls, folder: Path | str, split: Split) -> ShardSet:
        """Open a split; the sizes of all files are checked, their content is not read.

        A corpus prepared without a dev split has an empty one: ``shards == ()``.
        """
        folder = Path(folder)
        manifest = read_manifest(folder)
        entry = manifest["splits"][split]
        dtype = token_dtype(manifest["vocab_size"])
        shards = tuple(
            Shard(_shard_path(folder, split, i), row["documents"], row["sentences"], row["tokens"], dtype)
            for i, row in enumerate(entry["shards"])
        )
        for shard in shards:
            shard.check()
        return cls(folder, split, shards, manifest["vocab_size"], _identity(manifest, split))

    @property
    def tokenizer_folder(self) -> Path:
        """The copy of the tokenizer that made the tokens."""
        return self.folder / TOKENIZER_FOLDER

    def unigram_counts(self) -> NDArray[np.int64]:
        """Return how often each piece occurs, int64 [V]."""
        path = self.folder / self.split / UNIGRAMS
        if not path.is_file():
            return np.zeros(self.vocab_size, np.int64)
        return cast(NDArray[np.int64], np.load(path, allow_pickle=False))

    def verify(self) -> None:
        """Read every file and compare it with the manifest's hashes; DataError on damage."""
        rows = read_manifest(self.folder)["splits"][self.split]["shards"]
        for shard, row in zip(self.shards, rows, strict=True):
            for path, known in ((shard.bin_path, row["bin"]), (shard.idx_path, row["idx"])):
                if sha256_file(path) != known:
                    raise DataError(f"{path} is damaged; run `litebert prepare` again")
