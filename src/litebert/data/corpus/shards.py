"""Token shards: memory-mapped piece ids with sentence and document offsets."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from litebert.common.errors import ConfigError, DataError
from litebert.common.files import atomic_path, sha256_file
from litebert.common.limits import check_regular
from litebert.common.rng import rng
from litebert.data.corpus.manifest import Manifest, ShardEntry, Split, SplitEntry
from litebert.text.tokenizer import Tokenizer

Tokens = NDArray[np.uint16] | NDArray[np.uint32]
TokenType = np.dtype[np.uint16] | np.dtype[np.uint32]
Integers = NDArray[np.int64]

TOKENIZER_FOLDER = "tokenizer"
UNIGRAMS = "unigrams.npy"

# An .idx file is four uint64 (magic, documents, sentences, tokens), then uint32 sentence offsets
# and uint32 document offsets: half the size of int64, and a shard never has 2^32 tokens.
_MAGIC = int.from_bytes(b"LBIDX\x00\x00\x01", "little")
_HEADER_BYTES = 32
_MAX_OFFSET = (1 << 32) - 1
_COUNTED_AT_ONCE = 1 << 22
_REMEDY = "run `litebert prepare` into a new folder"

READ_WHOLE_BYTES = 4 << 30  # in seconds; of a larger corpus a part is verified


def token_dtype(vocab_size: int) -> TokenType:
    """Return the little-endian type of tokens: uint16 up to 65,535 pieces, else uint32."""
    return np.dtype("<u2") if vocab_size <= 65_535 else np.dtype("<u4")


def offsets_of(lengths: Integers) -> Integers:
    """Turn lengths [N] into offsets [N + 1] that begin with 0."""
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))


class Documents(NamedTuple):
    """Whole documents as columns: cut, selected and joined without a loop over tokens."""

    tokens: Tokens  # piece ids of all sentences, uint16 or uint32 [T]
    sentence_lengths: Integers  # tokens of each sentence, int64 [S]
    document_lengths: Integers  # sentences of each document, int64 [D]

    @classmethod
    def join(cls, parts: Sequence[Documents]) -> Documents:
        """Concatenate at least one group of documents."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))

    @property
    def document_tokens(self) -> Integers:
        """Tokens of each document, int64 [D]."""
        return np.diff(offsets_of(self.sentence_lengths)[offsets_of(self.document_lengths)])

    def select(self, keep: NDArray[np.bool_]) -> Documents:
        """Return the documents for which ``keep``, bool [D], is true."""
        if keep.all():
            return self
        sentences = np.repeat(keep, self.document_lengths)
        tokens = self.tokens[np.repeat(sentences, self.sentence_lengths)]
        return Documents(tokens, self.sentence_lengths[sentences], self.document_lengths[keep])


@dataclass(frozen=True)
class Shard:
    """One pair of ``.bin`` and ``.idx`` files; each property maps or reads its file anew: keep what it returns."""

    path: Path  # the shard's files without their suffix
    num_documents: int
    num_sentences: int
    num_tokens: int
    dtype: TokenType

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
        if self.num_tokens == 0:  # an empty file cannot be mapped
            return cast(Tokens, np.empty(0, self.dtype))
        return cast(Tokens, np.memmap(self.bin_path, self.dtype, "r", shape=(self.num_tokens,)))

    @property
    def sentence_offsets(self) -> Integers:
        """Where each sentence begins in ``tokens``, int64 [num_sentences + 1]."""
        return self._offsets(0, self.num_sentences)

    @property
    def document_offsets(self) -> Integers:
        """Where each document begins among the sentences, int64 [num_documents + 1]."""
        return self._offsets(self.num_sentences + 1, self.num_documents)

    def _offsets(self, first: int, count: int) -> Integers:
        start = _HEADER_BYTES + 4 * first
        return np.fromfile(self.idx_path, "<u4", count + 1, offset=start).astype(np.int64)

    def read(self) -> tuple[Tokens, Integers, Integers]:
        """Tokens, sentence offsets and document offsets; DataError if they make no sense."""
        try:
            tokens, sentences, documents = self.tokens, self.sentence_offsets, self.document_offsets
        except (OSError, ValueError) as error:
            raise DataError(f"shard {self.path} cannot be read ({error}); {_REMEDY}") from None
        for offsets, end in ((sentences, self.num_tokens), (documents, self.num_sentences)):
            if offsets[0] != 0 or offsets[-1] != end or (offsets[1:] <= offsets[:-1]).any():
                raise DataError(f"{self.idx_path} is damaged: its offsets are not in order; {_REMEDY}")
        return tokens, sentences, documents

    def check_content(self, vocab_size: int) -> None:
        """Raise DataError if a token is not in the vocabulary, or an offset not in order."""
        tokens, _, _ = self.read()
        for start in range(0, self.num_tokens, _COUNTED_AT_ONCE):
            if tokens[start : start + _COUNTED_AT_ONCE].max() >= vocab_size:
                raise DataError(f"{self.bin_path} has tokens beyond {vocab_size} pieces")

    @property
    def sizes(self) -> dict[Path, int]:
        """Bytes that each of the two files should have."""
        return {
            self.bin_path: self.num_tokens * self.dtype.itemsize,
            self.idx_path: _HEADER_BYTES + 4 * (self.num_sentences + self.num_documents + 2),
        }

    def check(self) -> None:
        """Raise DataError if a file is missing, cut short or of another shard."""
        for path, num_bytes in self.sizes.items():
            if not path.is_file():
                raise DataError(f"{path} is missing; {_REMEDY}")
            if (found := path.stat().st_size) != num_bytes:
                raise DataError(f"{path} has {found} bytes instead of {num_bytes}; {_REMEDY}")


class ShardSet:
    """The shards of one split of a prepared corpus."""

    def __init__(self, folder: Path, split: Split, manifest: Manifest) -> None:
        entry, dtype = manifest.split(split), token_dtype(manifest.vocab_size)
        self.folder, self.split, self.vocab_size = folder, split, manifest.vocab_size
        self.fingerprint = manifest.fingerprint(split)
        self.tokenizer_folder = folder / TOKENIZER_FOLDER
        self.tokenizer_fingerprint = manifest.tokenizer  # of the one that made the tokens; empty if it is not known
        self.num_documents, self.num_sentences, self.num_tokens = entry.documents, entry.sentences, entry.tokens
        self.shards = tuple(
            Shard(shard_path(folder, split, i), row.documents, row.sentences, row.tokens, dtype)
            for i, row in enumerate(entry.shards)
        )
        self._entries = entry.shards

    @classmethod
    def open(cls, folder: Path | str, split: Split) -> ShardSet:
        """Open a split, which may be empty; sizes of files are checked, not their content."""
        folder = Path(folder)
        opened = cls(folder, split, Manifest.read(folder))
        for shard in opened.shards:
            shard.check()
        return opened

    def unigram_counts(self) -> Integers:
        """Return how often each piece occurs, int64 [V]."""
        path = self.folder / self.split / UNIGRAMS
        if not self.shards:
            return np.zeros(self.vocab_size, np.int64)
        try:
            check_regular(path)
            counts = np.load(path, mmap_mode="r", allow_pickle=False)
            if counts.shape != (self.vocab_size,) or counts.dtype != np.int64:
                raise ValueError("not a count for each piece")
            return cast(Integers, np.array(counts))
        except (DataError, OSError, ValueError, EOFError):
            raise DataError(f"{path} is missing or damaged; {_REMEDY}") from None

    def verify(self, numbers: Iterable[int] | None = None) -> None:
        """Compare shards, by default all, with their hashes; their content must make sense."""
        for number in range(len(self.shards)) if numbers is None else numbers:
            shard, entry = self.shards[number], self._entries[number]
            for path, expected in ((shard.bin_path, entry.bin), (shard.idx_path, entry.idx)):
                if sha256_file(path) != expected:
                    damage = "is damaged: it is not what `litebert prepare` wrote"
                    raise DataError(f"{path} {damage}; copy it again, or {_REMEDY}")
            shard.check_content(self.vocab_size)


def verify_shards(
    sets: Sequence[ShardSet], seed: int, *, everything: bool = False, part: int = 0, parts: int = 1
) -> str | None:
    """Verify shards before they are used: all up to 4 GB, of more a tenth unless ``everything``.

    ``part`` of ``parts`` is for processes that share the work. Returns a line about what was not read, or None.
    """
    found = [(shards, number) for shards in sets for number in range(len(shards.shards))]
    num_bytes = sum(sum(shard.sizes.values()) for shards in sets for shard in shards.shards)
    total, note = len(found), None
    if num_bytes > READ_WHOLE_BYTES and not everything:
        chosen = sorted(rng(seed, "verify").permutation(total)[: -(-total // 10)].tolist())
        found = [found[index] for index in chosen]
        checked = f"{len(found):,} of {total:,} shards were checked against their checksums"
        note = f"{checked}; --verify checks all {num_bytes / 1e9:,.0f} GB"
    for shards, number in found[part::parts]:
        shards.verify([number])
    return note


def tokenizer_of(sources: Sequence[ShardSet]) -> Tokenizer:
    """Load the one tokenizer that made the tokens of all sources; DataError if there is none."""
    if not sources:
        raise ConfigError("no corpus given; name at least one folder of shards")
    tokenizers = [Tokenizer.load(shards.tokenizer_folder) for shards in sources]
    for shards, tokenizer in zip(sources, tokenizers, strict=True):
        if shards.tokenizer_fingerprint not in ("", tokenizer.fingerprint):
            problem = "holds another tokenizer than the one that made the tokens: put that one back"
            raise DataError(f"{shards.tokenizer_folder} {problem}, or prepare the text again")
        if tokenizer.fingerprint != tokenizers[0].fingerprint:
            problem = f"was prepared with another tokenizer than {sources[0].folder}"
            raise DataError(f"{shards.folder} {problem}: prepare both with the same one")
        if tokenizer.vocab_size != shards.vocab_size:
            sizes = f"{shards.vocab_size} pieces but its tokenizer has {tokenizer.vocab_size}"
            raise DataError(f"{shards.folder} has tokens of {sizes}: prepare it again")
    return tokenizers[0]


def shard_path(folder: Path, split: Split, index: int) -> Path:
    """Return the path of a shard's files without their suffix."""
    return folder / split / f"{index:05d}"


def write_shard(path: Path, documents: Documents) -> None:
    """Write ``.bin``, then ``.idx``, each whole or not at all."""
    sentences = offsets_of(documents.sentence_lengths)
    assert sentences[-1] == len(documents.tokens) <= _MAX_OFFSET, "offsets must fit uint32"
    counts = (len(documents.document_lengths), len(documents.sentence_lengths), sentences[-1])
    offsets = np.concatenate((sentences, offsets_of(documents.document_lengths))).astype("<u4")
    _write(path.with_suffix(".bin"), documents.tokens.tobytes())
    _write(path.with_suffix(".idx"), np.array([_MAGIC, *counts], "<u8").tobytes() + offsets.tobytes())


def _write(path: Path, data: bytes) -> None:
    with atomic_path(path) as temporary:  # not ndarray.tofile: its error for a full disk has no errno
        temporary.write_bytes(data)


def cut_shards(groups: Iterable[Documents], shard_tokens: int) -> Iterator[Documents]:
    """Cut documents, however they are grouped, into shards that end with what fills them."""
    waiting, missing = list[Documents](), shard_tokens
    for documents in groups:
        while len(documents.document_lengths):
            ends = np.cumsum(documents.document_tokens)
            if ends[-1] < missing:
                waiting.append(documents)
                missing -= int(ends[-1])
                break
            fits = np.arange(len(ends)) <= np.searchsorted(ends, missing)
            yield Documents.join([*waiting, documents.select(fits)])
            waiting, missing = [], shard_tokens
            documents = documents.select(~fits)
    if waiting:
        yield Documents.join(waiting)


def seal_split(folder: Path, split: Split, vocab_size: int) -> SplitEntry:
    """Count and hash the shards that lie in a split's folder; writes ``unigrams.npy``."""
    counts, entries = np.zeros(vocab_size, np.int64), list[ShardEntry]()
    while (path := shard_path(folder, split, len(entries))).with_suffix(".idx").is_file():
        magic, documents, sentences, tokens = np.fromfile(path.with_suffix(".idx"), "<u8", 4).tolist()
        shard = Shard(path, documents, sentences, tokens, token_dtype(vocab_size))
        shard.check()
        assert magic == _MAGIC, "only shards of this version are sealed"
        mapped = shard.tokens
        for start in range(0, shard.num_tokens, _COUNTED_AT_ONCE):
            counts += np.bincount(mapped[start : start + _COUNTED_AT_ONCE], minlength=vocab_size)
        hashes = sha256_file(shard.bin_path), sha256_file(shard.idx_path)
        entries.append(ShardEntry(documents, sentences, tokens, *hashes))
    if entries:
        file = io.BytesIO()
        np.save(file, counts)
        _write(folder / split / UNIGRAMS, file.getvalue())
    return SplitEntry.of(tuple(entries))
