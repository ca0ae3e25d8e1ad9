"""SentencePiece models: text to piece ids exactly as the official code, fast, with raw offsets."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import cast

from litebert.common.errors import DataError, blame
from litebert.text.normalize import normalize, normalize_with_map
from litebert.text.tokenizer import MODEL_FILE, SPECIAL_PIECES, Encoding, Tokenizer, TokenizerSettings
from litebert.text.words import WORD_MARK

_PLACEHOLDER = "\ue000"  # private use: no vocabulary has it, so it becomes a piece of its own
_PLACEHOLDER_BYTES = [f"<0x{byte:02X}>" for byte in _PLACEHOLDER.encode()]  # with byte fallback
_MASK = re.compile(r"(?<!\s)\s*\[MASK\]", re.IGNORECASE)


class SentencePieceTokenizer(Tokenizer):
    """A SentencePiece model with a normalisation and ALBERT's digit-comma rule."""

    def __init__(self, model: bytes, settings: TokenizerSettings, source: str = MODEL_FILE) -> None:
        from sentencepiece import SentencePieceProcessor

        self.settings, self.model, self.processor = settings, model, SentencePieceProcessor()
        try:
            self.processor.LoadFromSerializedProto(model)
        except RuntimeError:
            problem = f"is not a SentencePiece model ({len(model)} bytes)"
            raise DataError(f"{source} {problem}; copy or train it again") from None
        self.vocab_size: int = self.processor.get_piece_size()
        with blame(source):  # a damaged piece may not be text
            self._pieces = [self.processor.id_to_piece(i) for i in range(self.vocab_size)]
        if missing := [piece for piece in SPECIAL_PIECES if piece not in self._pieces]:
            needed = ", ".join(SPECIAL_PIECES)
            raise DataError(f"{source} has no piece {missing[0]}; an ALBERT tokenizer needs {needed}")
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = map(self._pieces.index, SPECIAL_PIECES)
        self._digit_comma = self._digit_comma_table()
        self.split_ids = frozenset(self._digit_comma)  # of pieces such as ``▁1998,``: none is ever given
        self._silent: dict[str, bool] = {}

    def normalize(self, text: str) -> str:
        """Return the normalised text that is split into pieces."""
        return normalize(text, self.settings.lower, self.settings.normalization)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the piece ids of many texts: one call into SentencePiece, on one thread."""
        normalized = [self.normalize(text) for text in texts]
        if len(normalized) == 1:  # a list starts a thread, which costs more than the text
            batch = [cast(list[int], self.processor.encode(normalized[0]))]
        else:
            batch = cast(list[list[int]], self.processor.encode(normalized, num_threads=1))
        for index, ids in enumerate(batch if self._digit_comma else ()):
            if not self.split_ids.isdisjoint(ids):
                parts = (self._digit_comma.get(i, (("", i),)) for i in ids)
                batch[index] = [part_id for split in parts for _, part_id in split]
        return batch

    def pieces(self, text: str) -> list[str]:
        """Return the pieces of a text; what is unknown stands as its own characters."""
        return [piece for piece, _, _, _ in self._parts(self.normalize(text))]

    def encode_with_offsets(self, text: str) -> Encoding:
        """Return piece ids with the raw characters of each."""
        normalized = normalize_with_map(text, self.settings.lower, self.settings.normalization)
        parts = list(self._parts(normalized.text))
        spans = [normalized.raw_span(start, end) for _, _, start, end in parts]
        return Encoding([part[1] for part in parts], [start for start, _ in spans], [end for _, end in spans])

    def encode_masked(self, text: str) -> list[int]:
        """Return piece ids with the mask's id wherever the text says ``[MASK]``.

        A mask stands for a whole piece with its word mark: what follows directly gets none, as in pretraining.
        """
        marked = _MASK.sub(f" {_PLACEHOLDER}", text.replace(_PLACEHOLDER, ""))
        pieces, tokens = self.pieces(marked), self.encode(marked)
        if _PLACEHOLDER_BYTES[0] in pieces:
            _join_bytes(pieces, tokens)
        ids: list[int] = []
        for piece, token in zip(pieces, tokens, strict=True):
            if _PLACEHOLDER in piece:
                if ids and self.id_to_piece(ids[-1]) == WORD_MARK:
                    ids.pop()
                ids.append(self.mask_id)
            if not piece.endswith(_PLACEHOLDER):
                ids.append(token)  # unknown characters right after the mask share its piece
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of piece ids; control pieces such as ``[CLS]`` are left out."""
        return cast(str, self.processor.decode([int(piece_id) for piece_id in ids]))

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the model and the settings that change ids: equal hashes give equal ids."""
        ours = self.settings
        settings: dict[str, object] = {"lower": ours.lower, "digit_comma": ours.digit_comma}
        if ours.normalization != "official":  # hashes from before there was a choice hold
            settings["normalization"] = ours.normalization
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode() + self.model).hexdigest()

    @property
    def description(self) -> str:
        """What it is in a few words, for people."""
        case = "lower-cased" if self.settings.lower else "cased"
        language = f", language {self.settings.language}" if self.settings.language else ""
        return f"SentencePiece, normalization {self.settings.normalization}, {case}{language}"

    def _parts(self, text: str) -> Iterator[tuple[str, int, int, int]]:
        """Yield (piece, id, start, end) of a normalised text without what is ignored there."""
        found = self.processor.encode(text, return_type="offset_mapping")
        for piece, piece_id, (start, end) in zip(found["pieces"], found["ids"], found["offsets"], strict=True):
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

        The official code encodes it without comma and word marks anew, then adds the comma. It means to take the new
        word mark away again where the piece had none, but compares text with bytes there, so that never happens.
        """
        rule, processor = self.settings.digit_comma, self.processor
        table: dict[int, tuple[tuple[str, int], ...]] = {}
        for piece_id, piece in enumerate(self._pieces if rule != "off" else ()):
            if piece[-1:] == "," and piece[-2:-1].isdigit():
                parts = cast(list[str], processor.encode_as_pieces(piece[:-1].replace(WORD_MARK, "")))
                if rule == "intended" and piece[0] != WORD_MARK:
                    parts[0] = parts[0].removeprefix(WORD_MARK)
                parts = [part for part in parts if part] + [","]
                table[piece_id] = tuple((part, processor.piece_to_id(part)) for part in parts)
        return table


def _join_bytes(pieces: list[str], tokens: list[int]) -> None:
    """Make one piece again of each placeholder that was written as bytes."""
    size = len(_PLACEHOLDER_BYTES)
    for start in reversed(range(len(pieces) - size + 1)):
        if pieces[start : start + size] == _PLACEHOLDER_BYTES:
            pieces[start : start + size] = [_PLACEHOLDER]
            tokens[start + 1 : start + size] = []
