"""The tokenizer: text to piece ids exactly as the official code, fast, with raw offsets."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast, get_args

import numpy as np
import numpy.typing as npt

from litebert.common.errors import ConfigError, DataError
from litebert.common.files import read_json
from litebert.text.normalize import Normalization, normalize, normalize_with_map

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor

MODEL_FILE = "spiece.model"
JSON_FILE = "tokenizer.json"
CONFIG_FILE = "tokenizer_config.json"
TOKENIZER_FILES = (MODEL_FILE, JSON_FILE, CONFIG_FILE)
WORD_MARK = "▁"
SPECIAL_PIECES = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")

DigitComma = Literal["official", "intended", "off"]


@dataclass(frozen=True)
class TokenizerSettings:
    """What a tokenizer does beside its SentencePiece model; kept in ``tokenizer_config.json``."""

    lower: bool = True
    """lower-case the text"""
    digit_comma: DigitComma = "official"
    """how a piece such as ``▁1998,`` is split: as the official code does, as it meant, or not"""
    model_max_length: int = 512
    """longest sequence of the model, for other tools that read the folder"""
    normalization: Normalization = "official"
    """what becomes of accents: dropped as in ALBERT, kept (NFKC), or the text is left as it is"""

    @classmethod
    def read(cls, path: Path) -> TokenizerSettings:
        """Read the settings from a ``tokenizer_config.json``, ours or one by other tools."""
        values = read_json(path)
        lower = values.get("do_lower_case", True)
        digit_comma = values.get("digit_comma", "official")
        max_length = values.get("model_max_length", 512)
        # Written for transformers' own ALBERT class, which knows the one and not the other.
        kept = "keep-accents" if values.get("keep_accents") else "official"
        normalization = values.get("normalization", kept)
        if not isinstance(lower, bool):
            raise ConfigError(f"{path}: do_lower_case is {lower!r}; write true or false")
        if digit_comma not in get_args(DigitComma):
            choices = ", ".join(get_args(DigitComma))
            raise ConfigError(f"{path}: digit_comma is {digit_comma!r}; choose one of {choices}")
        if normalization not in get_args(Normalization):
            choices = ", ".join(get_args(Normalization))
            raise ConfigError(
                f"{path}: normalization is {normalization!r}; choose one of {choices}"
            )
        if not isinstance(max_length, int):
            max_length = 512
        return cls(
            lower,
            cast(DigitComma, digit_comma),
            max_length,
            cast(Normalization, normalization),
        )


@dataclass(frozen=True)
class Encoding:
    """Piece ids of one text with the raw characters each came from.

    ``text[starts[i]:ends[i]]`` is the raw text of piece i without the space before it; a piece that
    stands for that space alone is empty.
    """

    ids: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)


class Tokenizer:
    """A SentencePiece model with a normalisation and ALBERT's digit-comma rule.

    Attributes:
        settings: what it does beside the model.
        model: the SentencePiece model as bytes; ``processor`` is the same, loaded.
        vocab_size: number of pieces V; ids are 0 to V - 1.
        pad_id, unk_id, cls_id, sep_id, mask_id: the special pieces, 0 to 4 in official models.
    """

    def __init__(self, model: bytes, settings: TokenizerSettings, source: str = MODEL_FILE) -> None:
        self.settings = settings
        self.model = model
        self.processor = _load_processor(model, source)
        self.vocab_size: int = self.processor.get_piece_size()
        ids = [_special_id(self.processor, piece, source) for piece in SPECIAL_PIECES]
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = ids
        self._digit_comma = self._digit_comma_table()
        self._silent: dict[str, bool] = {}

    @classmethod
    def load(cls, folder: Path | str) -> Tokenizer:
        """Load a tokenizer folder; one with only ``spiece.model`` gets the official settings."""
        folder = Path(folder)
        path = folder / MODEL_FILE
        if not folder.is_dir():
            raise DataError(f"tokenizer folder {folder} does not exist")
        if not path.is_file():
            raise DataError(_without_model(folder))
        config = folder / CONFIG_FILE
        settings = TokenizerSettings.read(config) if config.is_file() else TokenizerSettings()
        return cls(path.read_bytes(), settings, str(path))

    def save(self, folder: Path | str) -> None:
        """Write ``spiece.model``, ``tokenizer.json`` and ``tokenizer_config.json`` to a folder."""
        from litebert.text.folder import write_tokenizer_files

        write_tokenizer_files(self, Path(folder))

    def normalize(self, text: str) -> str:
        """Return the normalised text that is split into pieces."""
        return normalize(text, self.settings.lower, self.settings.normalization)

    def encode(self, text: str) -> list[int]:
        """Return the piece ids of a text, without special tokens."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the piece ids of many texts: one call into SentencePiece, on one thread."""
        lower, rule = self.settings.lower, self.settings.normalization
        normalized = [normalize(text, lower, rule) for text in texts]
        if len(normalized) == 1:  # a list starts a thread, which costs more than the text
            batch = [cast(list[int], self.processor.encode(normalized[0]))]
        else:
            batch = cast(list[list[int]], self.processor.encode(normalized, num_threads=1))
        if self._digit_comma:
            affected = self._digit_comma.keys()
            for index, ids in enumerate(batch):
                if not affected.isdisjoint(ids):
                    parts = (self._digit_comma.get(i, (("", i),)) for i in ids)
                    batch[index] = [part_id for split in parts for _, part_id in split]
        return batch

    def pieces(self, text: str) -> list[str]:
        """Return the pieces of a text; an unknown stretch stands as its own characters."""
        return [piece for piece, _, _, _ in self._parts(self.normalize(text))]

    def encode_with_offsets(self, text: str) -> Encoding:
        """Return piece ids with the raw characters of each."""
        settings = self.settings
        normalized = normalize_with_map(text, settings.lower, settings.normalization)
        encoding = Encoding()
        for _, piece_id, start, end in self._parts(normalized.text):
            raw_start, raw_end = normalized.raw_span(start, end)
            encoding.ids.append(piece_id)
            encoding.starts.append(raw_start)
            encoding.ends.append(raw_end)
        return encoding

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of piece ids; control pieces such as ``[CLS]`` are left out."""
        return cast(str, self.processor.decode([int(piece_id) for piece_id in ids]))

    @property
    def special_ids(self) -> tuple[int, ...]:
        """Ids of the pieces that are not words: padding, unknown, [CLS], [SEP], [MASK]."""
        return self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id

    def id_to_piece(self, piece_id: int) -> str:
        """Return the piece of an id, such as ``▁the``."""
        return self.processor.id_to_piece(int(piece_id))

    @cached_property
    def word_starts(self) -> npt.NDArray[np.bool_]:
        """For each id whether it starts a word when words are masked whole; bool [V].

        The official rule: a piece continues the word before it if it has no word mark, does not
        begin with ``<``, is not a single punctuation character, and consists of English letters and
        punctuation alone. Digits and foreign letters therefore always start a word.
        """
        pieces = [self.id_to_piece(index) for index in range(self.vocab_size)]
        starts = np.array([_CONTINUATION.fullmatch(piece) is None for piece in pieces])
        starts[[self.cls_id, self.sep_id, self.mask_id]] = True  # specials belong to no word
        return starts

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the model and the settings that change ids: equal hashes give equal ids."""
        settings: dict[str, object] = {
            "lower": self.settings.lower,
            "digit_comma": self.settings.digit_comma,
        }
        if self.settings.normalization != "official":  # hashes from before there was a choice hold
            settings["normalization"] = self.settings.normalization
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
        digest.update(self.model)
        return digest.hexdigest()

    @property
    def split_ids(self) -> frozenset[int]:
        """Ids of pieces such as ``▁1998,`` that the digit-comma rule splits: none is ever given."""
        return frozenset(self._digit_comma)

    def _parts(self, text: str) -> Iterator[tuple[str, int, int, int]]:
        """Yield (piece, id, start, end) of a normalised text, the digit-comma rule applied.

        Start and end leave out white space and characters that SentencePiece ignores.
        """
        mapping = self.processor.encode(text, return_type="offset_mapping")
        rows = zip(mapping["pieces"], mapping["ids"], mapping["offsets"], strict=True)
        for piece, piece_id, (start, end) in rows:
            while start < end and self._is_silent(text[start]):
                start += 1
            while start < end and self._is_silent(text[end - 1]):
                end -= 1
            if piece_id not in self._digit_comma:
                yield piece, piece_id, start, end
                continue
            for part, part_id in self._digit_comma[piece_id]:
                stop = start
                for _ in part.replace(WORD_MARK, ""):
                    while self._is_silent(text[stop]):
                        stop += 1
                    stop += 1
                yield part, part_id, start, stop
                start = stop

    def _is_silent(self, character: str) -> bool:
        """Whether SentencePiece's own normalisation makes white space or nothing of a character."""
        if character.isalnum():
            return False
        if character not in self._silent:
            self._silent[character] = not self.processor.normalize(character)
        return self._silent[character]

    def _digit_comma_table(self) -> dict[int, tuple[tuple[str, int], ...]]:
        """Return for each piece such as ``▁1998,`` the pieces and ids it is split into.

        The official code encodes the piece without its comma and word marks anew, then adds the
        comma. It means to take the new word mark away again where the piece had none, but compares
        text with bytes there, so that never happens. What a piece becomes does not depend on its
        neighbours, hence a table.
        """
        rule = self.settings.digit_comma
        table: dict[int, tuple[tuple[str, int], ...]] = {}
        if rule == "off":
            return table
        processor = self.processor
        for piece_id in range(self.vocab_size):
            piece = self.id_to_piece(piece_id)
            if len(piece) < 2 or piece[-1] != "," or not piece[-2].isdigit():
                continue
            parts = cast(list[str], processor.encode_as_pieces(piece[:-1].replace(WORD_MARK, "")))
            if rule == "intended" and piece[0] != WORD_MARK and parts[0][0] == WORD_MARK:
                parts[0] = parts[0][1:]
            parts = [part for part in parts if part] + [","]
            table[piece_id] = tuple((part, processor.piece_to_id(part)) for part in parts)
        return table


# One or more English letters and punctuation characters, but not one punctuation character alone,
# nor anything that begins with "<" (which is not in the set) or a word mark.
_PUNCTUATION = re.escape('!"#$%&()*+,-./:;?@[\\]^_`{|}~')
_CONTINUATION = re.compile(f"[a-zA-Z]|[a-zA-Z{_PUNCTUATION}]{{2,}}")


def _without_model(folder: Path) -> str:
    """What to do about a folder without ``spiece.model``; a model needs the vocabulary it has."""
    if (folder / "model" / MODEL_FILE).is_file():
        return f"{folder} has no {MODEL_FILE}, but its {folder / 'model'} has: name that folder"
    if (folder / JSON_FILE).is_file() or (folder / "config.json").is_file():
        return (
            f"{folder} has no {MODEL_FILE}, which litebert reads: copy it from the folder or hub "
            "name that this model was made from (another vocabulary does not fit its weights)"
        )
    return f"{folder} has no {MODEL_FILE}; train one with `litebert tokenizer train`"


def _load_processor(model: bytes, source: str) -> SentencePieceProcessor:
    from sentencepiece import SentencePieceProcessor

    processor = SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
    except RuntimeError:
        raise DataError(
            f"{source} is not a SentencePiece model ({len(model)} bytes); copy or train it again"
        ) from None
    return processor


def _special_id(processor: SentencePieceProcessor, piece: str, source: str) -> int:
    piece_id = processor.piece_to_id(piece)
    if processor.id_to_piece(piece_id) != piece:
        raise DataError(
            f"{source} has no piece {piece}; an ALBERT tokenizer needs {', '.join(SPECIAL_PIECES)}"
        )
    return piece_id
