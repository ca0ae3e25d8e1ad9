"""Vocabularies of others, read by `tokenizers`: ``tokenizer.json`` (Unigram, WordPiece), vocab.txt.

What other tools leave when they save a folder of ours again is a ``tokenizer.json`` alone; popular
Chinese and Korean models come with a ``vocab.txt``. Ids and offsets are those of the library.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from litebert.common.errors import ConfigError, DataError, blame
from litebert.common.files import read_bytes
from litebert.common.limits import parse_json
from litebert.text.normalize import replace_surrogates
from litebert.text.tokenizer import JSON_FILE, LARGEST_VOCABULARY, Encoding, Tokenizer, TokenizerSettings, special_names
from litebert.text.words import WORD_MARK

if TYPE_CHECKING:
    import tokenizers

_MOST_PIECES = 10_000_000
_BERT_SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_IDENTITY = ("normalizer", "pre_tokenizer", "model", "added_tokens")  # what in a ``tokenizer.json`` decides ids


class JsonTokenizer(Tokenizer):
    """A ``tokenizer.json`` with a Unigram or WordPiece vocabulary."""

    def __init__(self, model: bytes, settings: TokenizerSettings, source: str = JSON_FILE) -> None:
        self.model = model
        self._parts = _read_parts(model, source)
        self._fast = _open(model, source)
        # A text that says "[SEP]" is a text; only `encode_masked` looks for a special piece.
        self._fast.encode_special_tokens = True
        names = self._fast.get_vocab()
        self.vocab_size = max(names.values(), default=0) + 1
        if self.vocab_size > _MOST_PIECES:
            raise DataError(f"{source} has a piece with id {self.vocab_size - 1}; copy it again")
        self._pieces = [self._fast.id_to_token(i) or "" for i in range(self.vocab_size)]
        self.is_wordpiece = self._parts["model"]["type"] == "WordPiece"
        both = zip(settings.specials, _BERT_SPECIALS, strict=True)
        specials = tuple(name if name in names else other for name, other in both)
        _refuse_missing(specials, names, source)
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = (names[name] for name in specials)
        self._bare_mark = names.get(WORD_MARK)
        self.settings = replace(settings, specials=specials)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the piece ids of many texts, without special tokens."""
        clean = [replace_surrogates(text) for text in texts]
        return [found.ids for found in self._fast.encode_batch(clean, add_special_tokens=False)]

    def encode_with_offsets(self, text: str) -> Encoding:
        """Return piece ids with the raw characters of each, the space before them left out."""
        found = self._fast.encode(replace_surrogates(text), add_special_tokens=False)
        encoding = Encoding(ids=found.ids)
        nexts = [start for start, _ in [*found.offsets, (len(text), 0)]][1:]
        for piece_id, (start, end), following in zip(found.ids, found.offsets, nexts, strict=True):
            if piece_id == self._bare_mark and not text[start].isspace():
                end = start  # the mark of a word without a space before it
            piece = text[start:end]
            start += len(piece) - len(piece.lstrip())
            end = start + len(piece.strip())
            # An accent that was dropped belongs to the letter before it.
            while start < end < following and unicodedata.combining(text[end]):
                end += 1
            encoding.starts.append(start)
            encoding.ends.append(end)
        return encoding

    def encode_masked(self, text: str) -> list[int]:
        """Return piece ids with the mask's id wherever the text says ``[MASK]``."""
        mask = self.id_to_piece(self.mask_id)
        marked = re.sub(r"\[MASK\]", lambda _: mask, replace_surrogates(text), flags=re.IGNORECASE)
        return list(self._masking.encode(marked, add_special_tokens=False).ids)

    @cached_property
    def _masking(self) -> tokenizers.Tokenizer:
        return _open(self.model, JSON_FILE)

    def pieces(self, text: str) -> list[str]:
        """Return the pieces of a text; what is unknown stands as its own characters."""
        found = self.encode_with_offsets(text)
        return [
            text[start:end] if piece_id == self.unk_id else self._pieces[piece_id]
            for piece_id, start, end in zip(found.ids, found.starts, found.ends, strict=True)
        ]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of piece ids; control pieces such as ``[CLS]`` are left out."""
        return self._fast.decode([int(piece_id) for piece_id in ids])

    @property
    def description(self) -> str:
        """What it is in a few words, for people."""
        return f"{self._parts['model']['type']}, normalized as {JSON_FILE} says"

    @cached_property
    def fingerprint(self) -> str:
        """Hash of all that changes ids: equal hashes give equal ids."""
        parts = {key: self._parts.get(key) for key in _IDENTITY}
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def read_vocabulary(path: Path, config: Mapping[str, object]) -> bytes:
    """Turn a WordPiece ``vocab.txt`` into a ``tokenizer.json``; what its ``config`` does not say is as in BERT."""
    from tokenizers import decoders, normalizers, pre_tokenizers

    pieces = _lines(path)
    _refuse_twins(pieces, str(path))
    specials = special_names(config, _BERT_SPECIALS)
    _refuse_missing(specials, pieces, path)
    fast = _wordpiece({piece: index for index, piece in enumerate(pieces)}, specials)
    accents = config.get("strip_accents")
    fast.normalizer = normalizers.BertNormalizer(
        handle_chinese_chars=bool(config.get("tokenize_chinese_chars", True)),
        strip_accents=None if accents is None else bool(accents),
        lowercase=bool(config.get("do_lower_case", True)),
    )
    fast.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    fast.decoder = decoders.WordPiece("##")
    return fast.to_str().encode()


def number_vocabulary(size: int, specials: Sequence[int]) -> bytes:
    """Return a ``tokenizer.json`` of the words 0 to ``size - 1``, for ids that are not text, five of them special."""
    from tokenizers import pre_tokenizers

    if len(set(specials)) != len(_BERT_SPECIALS) or not all(0 <= one < size for one in specials):
        raise ConfigError(f"--specials {list(specials)}: give five different ids below {size}")
    names = {str(number): number for number in range(size) if number not in specials}
    fast = _wordpiece(names | dict(zip(_BERT_SPECIALS, specials, strict=True)), _BERT_SPECIALS)
    fast.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return fast.to_str().encode()


def _wordpiece(ids: dict[str, int], specials: Sequence[str]) -> tokenizers.Tokenizer:
    from tokenizers import Tokenizer as FastTokenizer
    from tokenizers.models import WordPiece

    _, unknown, cls, sep, _ = specials
    fast = FastTokenizer(WordPiece(ids, unk_token=unknown))
    fast.add_special_tokens(list(specials))
    fast.post_processor = two_segments((cls, ids[cls]), (sep, ids[sep]))
    return fast


def two_segments(cls: tuple[str, int], sep: tuple[str, int]) -> tokenizers.processors.PostProcessor:
    """What `tokenizers` adds to one text or two: ``[CLS] A [SEP] B [SEP]``, B in segment 1."""
    from tokenizers.processors import TemplateProcessing

    single = f"{cls[0]}:0 $A:0 {sep[0]}:0"
    return TemplateProcessing(single, f"{single} $B:1 {sep[0]}:1", special_tokens=[cls, sep])


def check_same_pieces(tokenizer: Tokenizer, path: Path, other: Path) -> None:
    """Raise DataError if another file of the folder holds another vocabulary."""
    if other.name != JSON_FILE:
        theirs = _lines(other)
    else:
        theirs = _pieces_of(_read_parts(read_bytes(other, LARGEST_VOCABULARY), str(other))["model"]["vocab"])
    ours = [tokenizer.id_to_piece(index) for index in range(tokenizer.vocab_size)]
    if ours[: len(theirs)] != theirs:
        both = f"{path.name} ({len(ours):,} pieces) and {other.name} ({len(theirs):,})"
        problem = f"holds two vocabularies that contradict each other, {both}"
        raise DataError(f"{path.parent} {problem}; remove the one that is not the model's")


def _lines(path: Path) -> list[str]:
    try:
        text = read_bytes(path, LARGEST_VOCABULARY).decode().replace("\r\n", "\n")
        return text.removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 ({error.reason} at byte {error.start})") from None


def _read_parts(model: bytes, source: str) -> dict[str, Any]:
    """Parse a ``tokenizer.json`` and refuse what is not a vocabulary that we can read."""
    try:
        parts: dict[str, Any] = parse_json(model)  # type: ignore[assignment]
        kind, vocabulary = parts["model"]["type"], parts["model"]["vocab"]
    except (KeyError, TypeError, ValueError):
        raise DataError(f"{source} is not a {JSON_FILE} of a tokenizer; copy it again") from None
    if kind not in ("Unigram", "WordPiece"):
        name = "byte-level BPE" if "ByteLevel" in json.dumps(parts.get("pre_tokenizer")) else kind
        problem = f"has a {name} vocabulary, whose pieces are not words or their parts with marks"
        raise DataError(f"{source} {problem}; Unigram and WordPiece are read")
    with blame(source):
        _refuse_twins(_pieces_of(vocabulary), source)
    return parts


def _pieces_of(vocabulary: object) -> list[str]:
    """The pieces of a vocabulary in the order of their ids."""
    if isinstance(vocabulary, dict):
        ids = list(vocabulary.values())
        if len(set(ids)) < len(ids):
            number = Counter(ids).most_common(1)[0][0]
            raise DataError(f"{JSON_FILE} has two pieces with id {number}; copy it again")
        return sorted(vocabulary, key=vocabulary.__getitem__)
    if not isinstance(vocabulary, list):
        raise TypeError("vocab is neither a list nor an object")
    return [piece for piece, _ in vocabulary]


def _refuse_missing(specials: Iterable[str], pieces: Collection[str], source: object) -> None:
    if missing := [name for name in specials if name not in pieces]:
        raise DataError(f"{source} has no piece {missing[0]}; a tokenizer of ALBERT needs it")


def _refuse_twins(pieces: Iterable[str], source: str) -> None:
    piece, count = next(iter(Counter(pieces).most_common(1)), ("", 0))
    if count > 1:
        raise DataError(f"{source} has the piece {piece!r} {count} times; each id needs a piece of its own")


def _open(model: bytes, source: str) -> tokenizers.Tokenizer:
    from tokenizers import Tokenizer as FastTokenizer

    try:
        fast = FastTokenizer.from_str(model.decode())
    except Exception as error:  # the library raises a bare Exception
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"{source} cannot be read by tokenizers: {reason}") from None
    fast.no_truncation()
    fast.no_padding()
    return fast
