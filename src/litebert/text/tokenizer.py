"""What a tokenizer is and how its folder is opened, whichever library reads the vocabulary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, Protocol, cast, get_args

import numpy as np
import numpy.typing as npt

from litebert.common.errors import ConfigError, DataError
from litebert.common.files import near_folders, read_bytes, read_json
from litebert.text.normalize import Normalization
from litebert.text.words import WORD_MARK, Borders, WordRule, official_borders, unicode_borders

MODEL_FILE = "spiece.model"
JSON_FILE = "tokenizer.json"
CONFIG_FILE = "tokenizer_config.json"
VOCABULARY_FILE = "vocab.txt"
TOKENIZER_FILES = (MODEL_FILE, JSON_FILE, CONFIG_FILE, VOCABULARY_FILE)
SPECIAL_PIECES = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
SPECIAL_KEYS = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
"""What ``tokenizer_config.json`` calls them."""
WORDPIECE_PREFIX = "##"
LARGEST_VOCABULARY = 1 << 27  # bytes: many times those of a million pieces

DigitComma = Literal["official", "intended", "off"]


@dataclass(frozen=True)
class TokenizerSettings:
    """What a tokenizer does beside its SentencePiece model; kept in ``tokenizer_config.json``."""

    lower: bool = True  # lower-case the text
    digit_comma: DigitComma = "official"
    """how a piece such as ``▁1998,`` is split: as the official code does, as it meant, or not"""
    model_max_length: int = 512  # longest sequence of the model, for other tools that read the folder
    normalization: Normalization = "official"
    """what becomes of accents: dropped as in ALBERT, kept (NFKC), or the text is left as it is"""
    specials: tuple[str, ...] = SPECIAL_PIECES  # names of padding, unknown, [CLS], [SEP] and [MASK]
    language: str = ""  # of the text it was trained for, an ISO 639 code; empty if that was not said

    @classmethod
    def read(cls, path: Path) -> TokenizerSettings:
        """Read the settings from a ``tokenizer_config.json``, ours or one by other tools."""
        values = read_json(path)
        lower = values.get("do_lower_case", True)
        if not isinstance(lower, bool):
            raise ConfigError(f"{path}: do_lower_case is {lower!r}; write true or false")
        # Written for transformers' own ALBERT class, which knows the one and not the other.
        kept = "keep-accents" if values.get("keep_accents") else "official"
        rules = []
        for key, usual, kind in (("digit_comma", "official", DigitComma), ("normalization", kept, Normalization)):
            value, choices = values.get(key, usual), get_args(kind)
            if value not in choices:
                raise ConfigError(f"{path}: {key} is {value!r}; choose one of {', '.join(choices)}")
            rules.append(value)
        length, language = values.get("model_max_length"), values.get("language")
        length = length if isinstance(length, int) else 512
        language = language if isinstance(language, str) else ""
        digit_comma, rule = cast(DigitComma, rules[0]), cast(Normalization, rules[1])
        return cls(lower, digit_comma, length, rule, special_names(values), language)

    def for_others(self, is_ours: bool) -> dict[str, object]:
        """Return the content of ``tokenizer_config.json``; all but ours say in ``tokenizer.json`` what they do."""
        ours = {
            "do_lower_case": self.lower,
            # transformers' own ALBERT class, given spiece.model alone, knows only this much.
            "keep_accents": self.normalization != "official",
            "normalization": self.normalization,
            "digit_comma": self.digit_comma,
        }
        return {
            # transformers' own ALBERT class would rebuild the normaliser and ignore tokenizer.json.
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": self.model_max_length,
            "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
            **dict.fromkeys(("padding_side", "truncation_side"), "right"),
            "clean_up_tokenization_spaces": False,
            **dict(zip(SPECIAL_KEYS, self.specials, strict=True)),
            **(ours if is_ours else {}),
            **({"language": self.language} if self.language else {}),
        }


@dataclass(frozen=True)
class Encoding:
    """Piece ids of one text; ``text[starts[i]:ends[i]]`` is piece i without the space before it, perhaps nothing."""

    ids: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)


class Tokenizer(Protocol):
    """Text to piece ids and back, with raw offsets."""

    settings: TokenizerSettings
    model: bytes  # the vocabulary: with the settings, all there is to it
    vocab_size: int  # number of pieces V; ids are 0 to V - 1
    is_wordpiece: bool = False  # pieces inside a word are marked (``##ing``) instead of those that begin one (``▁the``)
    _pieces: list[str]
    pad_id: int  # the special pieces are 0 to 4 in official models
    unk_id: int
    cls_id: int
    sep_id: int
    mask_id: int

    @staticmethod
    def load(folder: Path | str) -> Tokenizer:
        """Open a folder with ``spiece.model``, ``vocab.txt``, or ``tokenizer.json`` alone."""
        from litebert.text.foreign import check_same_pieces, read_vocabulary

        folder = Path(folder)
        if not folder.is_dir():
            raise DataError(f"tokenizer folder {folder} does not exist.{near_folders(folder)}")
        pieces, words, fast = (folder / name for name in (MODEL_FILE, VOCABULARY_FILE, JSON_FILE))
        if not has_tokenizer(folder):
            remedy = "train one with `litebert tokenizer train`"
            if has_tokenizer(folder / "model"):
                remedy = f"its {folder / 'model'} has: name that folder"
            elif (folder / "config.json").is_file():
                remedy = "copy the model's own there: another vocabulary does not fit its weights"
            raise DataError(f"{folder} has no {MODEL_FILE}, {VOCABULARY_FILE} or {JSON_FILE}; {remedy}")
        if pieces.is_file() and words.is_file():
            both = f"{MODEL_FILE} and {VOCABULARY_FILE}; remove the one that is not the model's"
            raise DataError(f"{folder} holds two vocabularies, {both}")
        config = folder / CONFIG_FILE
        settings = TokenizerSettings.read(config) if config.is_file() else TokenizerSettings()
        if words.is_file() and not fast.is_file():
            model = read_vocabulary(words, read_json(config) if config.is_file() else {})
            return open_tokenizer(model, settings, str(words))
        path = pieces if pieces.is_file() else fast
        tokenizer = open_tokenizer(read_bytes(path, LARGEST_VOCABULARY), settings, str(path))
        for other in {pieces, words, fast} - {path}:
            if other.is_file():
                check_same_pieces(tokenizer, path, other)
        return tokenizer

    def save(self, folder: Path | str) -> None:
        """Write the files of a tokenizer folder that other tools read too."""
        from litebert.text.folder import save_tokenizer

        save_tokenizer(self, Path(folder))

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the piece ids of many texts, without special tokens."""

    def encode_with_offsets(self, text: str) -> Encoding:
        """Return piece ids with the raw characters of each."""

    def encode_masked(self, text: str) -> list[int]:
        """Return piece ids with the mask's id wherever the text says ``[MASK]``."""

    def pieces(self, text: str) -> list[str]:
        """Return the pieces of a text; what is unknown stands as its own characters."""

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of piece ids; control pieces such as ``[CLS]`` are left out."""

    def id_to_piece(self, piece_id: int) -> str:
        """Return the piece of an id, such as ``▁the``; nothing for an id between pieces."""
        return self._pieces[int(piece_id)]

    def spell(self, piece_id: int) -> tuple[bool, str]:
        """Return whether a piece begins after a space, and its text without the mark for that."""
        piece = self.id_to_piece(piece_id)
        if self.is_wordpiece:
            word = piece.removeprefix(WORDPIECE_PREFIX)
            return piece == word, word
        word = piece.lstrip(WORD_MARK)
        return piece != word, word

    @property
    def description(self) -> str:
        """What it is in a few words, for people."""

    @property
    def fingerprint(self) -> str:
        """Hash of all that changes ids: equal hashes give equal ids."""

    @property
    def word_rule(self) -> WordRule:
        """The rule for whole words that suits it: the official one knows English letters only."""
        return "official" if not self.is_wordpiece and self.settings.normalization == "official" else "unicode"

    @cached_property
    def word_starts(self) -> npt.NDArray[np.bool_]:
        """For each id whether it starts a word, by the official rule or by WordPiece; bool [V]."""
        if self.is_wordpiece:
            return np.array([self.spell(index)[0] for index in range(self.vocab_size)])
        return official_borders(self._pieces, self.special_ids)

    def encode(self, text: str) -> list[int]:
        """Return the piece ids of a text, without special tokens."""
        return self.encode_batch([text])[0]

    @property
    def special_ids(self) -> tuple[int, ...]:
        """Ids of the pieces that are not words: padding, unknown, [CLS], [SEP], [MASK]."""
        return self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id

    def agrees_with(self, other: Tokenizer) -> bool:
        """Whether ids are the same; by pieces and settings if two libraries read them."""
        if self.fingerprint == other.fingerprint or type(self) is type(other):
            return self.fingerprint == other.fingerprint
        ours = replace(self.settings, model_max_length=other.settings.model_max_length)
        return ours == other.settings and self._pieces == other._pieces

    def word_borders(self, rule: WordRule) -> Borders:
        """Where words begin when they are masked whole, for :func:`begins_words`; [V]."""
        if rule == "official" or self.is_wordpiece:
            return self.word_starts
        return unicode_borders(map(self.spell, range(self.vocab_size)), self.special_ids)


def open_tokenizer(model: bytes, settings: TokenizerSettings, source: str = "") -> Tokenizer:
    """Open a vocabulary: a SentencePiece model, or the content of a ``tokenizer.json``."""
    if model.lstrip()[:1] == b"{":
        from litebert.text.foreign import JsonTokenizer

        return JsonTokenizer(model, settings, source or JSON_FILE)
    from litebert.text.spiece import SentencePieceTokenizer

    return SentencePieceTokenizer(model, settings, source or MODEL_FILE)


def has_tokenizer(folder: Path) -> bool:
    """Whether a folder holds a vocabulary."""
    return any((folder / name).is_file() for name in (MODEL_FILE, JSON_FILE, VOCABULARY_FILE))


def special_names(values: Mapping[str, object], names: Sequence[str] = SPECIAL_PIECES) -> tuple[str, ...]:
    """The names of the special pieces in a ``tokenizer_config.json``, or else the usual ones."""
    found = [values.get(key) for key in SPECIAL_KEYS]
    found = [value.get("content") if isinstance(value, dict) else value for value in found]
    return tuple(value if isinstance(value, str) else usual for value, usual in zip(found, names, strict=True))
