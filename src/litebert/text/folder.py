"""Write a tokenizer folder that other tools read: spiece.model, tokenizer.json and its settings.

`tokenizer.json` (the `tokenizers` library) repeats in its own terms what `Tokenizer` does:
normalisation, the word mark, SentencePiece's user-defined symbols, which always stand alone, and
the digit-comma rule. That rule cannot be said there; pieces such as ``▁1998,`` get a score so low
that no best path uses them, which leads to the same ids but for rare lines.
"""

from __future__ import annotations

import json
import re
import shutil
import unicodedata
from pathlib import Path
from sys import maxunicode
from typing import TYPE_CHECKING, Any

from litebert.common.files import atomic_path, read_json, write_json, write_text
from litebert.text.foreign import two_segments
from litebert.text.spiece import SentencePieceTokenizer
from litebert.text.tokenizer import CONFIG_FILE, JSON_FILE, MODEL_FILE, SPECIAL_PIECES, TOKENIZER_FILES, Tokenizer
from litebert.text.words import WORD_MARK

if TYPE_CHECKING:
    import tokenizers

_NEVER_CHOSEN = -1000.0  # score of a piece that must lose against any other way to write its characters
_FINAL_SIGMA = (
    r"(?<=\p{Cased}|\p{Cased}\p{Case_Ignorable}|\p{Cased}\p{Case_Ignorable}{2})Σ(?!\p{Case_Ignorable}*\p{Cased})"
)
_INVISIBLE = ("Cc", "Cf", "Zs", "Zl", "Zp")
_MARKS = (WORD_MARK, "\N{REPLACEMENT CHARACTER}")
"""White space to SentencePiece, though Unicode counts them among the symbols."""


def copy_tokenizer(source: Path, target: Path, *, masks: bool | None = None) -> None:
    """Copy a tokenizer's files; those that other tools need and that are missing get made.

    ``masks`` says, if known, whether the model fills in ``[MASK]``: if not, offsets leave out the space before a word.
    """
    if (source / JSON_FILE).is_file() and (source / CONFIG_FILE).is_file():
        for name in TOKENIZER_FILES:
            if (source / name).is_file():
                shutil.copyfile(source / name, target / name)
    else:
        Tokenizer.load(source).save(target)
    if masks is None or "digit_comma" not in read_json(target / CONFIG_FILE):
        return
    values = read_json(target / JSON_FILE)
    if (wanted := _with_word_marks(values, masks)) != values:
        write_text(target / JSON_FILE, json.dumps(wanted, ensure_ascii=False) + "\n")


def save_tokenizer(tokenizer: Tokenizer, folder: Path) -> None:
    """Write a tokenizer's files: ``spiece.model`` of ours, ``tokenizer.json`` and its settings."""
    if is_ours := isinstance(tokenizer, SentencePieceTokenizer):
        with atomic_path(folder / MODEL_FILE) as temporary:
            temporary.write_bytes(tokenizer.model)
        content = build_fast_tokenizer(tokenizer).to_str() + "\n"
    else:
        content = tokenizer.model.decode()
    write_text(folder / JSON_FILE, content)
    write_json(folder / CONFIG_FILE, tokenizer.settings.for_others(is_ours))


def _with_word_marks(values: dict[str, Any], masks: bool) -> dict[str, Any]:
    """Return a ``tokenizer.json`` of ours that puts word marks for texts with masks or without.

    With: a mark in place of each space, and one before the first word; then "[MASK]." is a mask and a full stop, but a
    word's offsets begin with its space. Without: words are cut at spaces, then get marks, right after ``[MASK]`` too.
    """
    marks = {"type": "Metaspace", "replacement": WORD_MARK, "split": True}
    steps = [{**marks, "prepend_scheme": "first"}]
    if not masks:
        steps = [{"type": "WhitespaceSplit"}, {**marks, "prepend_scheme": "always"}]
    found = values["pre_tokenizer"].get("pretokenizers", [])
    if not any(step["type"] == "Metaspace" for step in found):
        return values
    rest = [step for step in found if step["type"] not in ("WhitespaceSplit", "Metaspace")]
    return {**values, "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps + rest}}


def build_fast_tokenizer(tokenizer: SentencePieceTokenizer) -> tokenizers.Tokenizer:
    """Return the same tokenizer for the `tokenizers` library."""
    from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers
    from tokenizers import Tokenizer as FastTokenizer

    processor, pieces, symbols = tokenizer.processor, list[tuple[str, float]](), list[str]()
    kinds = (processor.is_control, processor.is_unknown, processor.is_byte)
    for index in range(tokenizer.vocab_size):
        piece, score = tokenizer.id_to_piece(index), processor.get_score(index)
        if score == 0.0 and not any(is_kind(index) for is_kind in kinds):
            symbols.append(piece)  # in text, only pieces that always stand alone have that score
        never = index in tokenizer.split_ids or processor.is_unused(index)
        pieces.append((piece, _NEVER_CHOSEN if never else score))
    byte_fallback = any(map(processor.is_byte, range(tokenizer.vocab_size)))
    fast = FastTokenizer(models.Unigram(pieces, tokenizer.unk_id, byte_fallback))
    fast.normalizer = _normalizer(tokenizer)
    # "first": a text after [MASK] starts a word only where a space precedes it.
    steps: list[pre_tokenizers.PreTokenizer] = [pre_tokenizers.Metaspace(WORD_MARK, "first")]
    if symbols:
        longest_first = map(re.escape, sorted(symbols, key=len, reverse=True))
        steps.append(pre_tokenizers.Split(Regex("|".join(longest_first)), "isolated"))
    fast.pre_tokenizer = pre_tokenizers.Sequence(steps)
    fast.add_special_tokens([AddedToken(piece, normalized=False) for piece in SPECIAL_PIECES])
    fast.post_processor = two_segments(("[CLS]", tokenizer.cls_id), ("[SEP]", tokenizer.sep_id))
    fast.decoder = decoders.Metaspace(WORD_MARK, "first")
    if byte_fallback:
        fast.decoder = decoders.Sequence([decoders.ByteFallback(), fast.decoder])
    return fast


def _invisible_characters(tokenizer: SentencePieceTokenizer) -> tuple[str, str]:
    """Find what SentencePiece removes or takes for white space: its versions differ."""
    removed, spaces = [], []
    for character in map(chr, range(maxunicode + 1)):
        if unicodedata.category(character) in _INVISIBLE or character in _MARKS:
            seen = tokenizer.processor.normalize(f"a{character}b")
            if seen == f"{WORD_MARK}ab":
                removed.append(character)
            elif seen == f"{WORD_MARK}a{WORD_MARK}b":
                spaces.append(character)
    return "".join(removed), "".join(spaces)


def _normalizer(tokenizer: SentencePieceTokenizer) -> tokenizers.normalizers.Normalizer:
    from tokenizers import Regex, normalizers

    rule = tokenizer.settings.normalization
    characters = map(chr, range(maxunicode + 1)) if rule == "official" else ()
    combining = _character_class("".join(filter(unicodedata.combining, characters)))
    removed, spaces = map(_character_class, _invisible_characters(tokenizer))
    steps: list[normalizers.Normalizer] = []
    if removed or combining:
        # The word mark is put at place 0 of the raw text: a space holds it where a character goes.
        steps.append(normalizers.Replace(Regex(rf"\A[{removed}{combining}]+"), " "))
    # Python counts the separators 1C-1F as white space, the regular expression does not.
    steps.append(normalizers.Replace(Regex(r"[\s\x0b\x1c-\x1f]+"), " "))
    if rule == "official":
        steps += [normalizers.NFKD(), normalizers.Replace(Regex(f"[{combining}]"), "")]
    elif rule == "keep-accents":
        steps.append(normalizers.NFKC())
    if tokenizer.settings.lower:
        # That step lower-cases letter by letter; a sigma that ends a word looks at its neighbours.
        steps += [normalizers.Replace(Regex(_FINAL_SIGMA), "ς"), normalizers.Lowercase()]
    # What SentencePiece's own normalisation does after that.
    if removed:
        steps.append(normalizers.Replace(Regex(f"[{removed}]"), ""))
    if "é" in tokenizer.processor.normalize("e\N{COMBINING ACUTE ACCENT}"):
        steps.append(normalizers.NFKC())  # what NFKD took apart: Korean syllables
    steps.append(normalizers.Replace(Regex(f"[{spaces}]+"), " "))
    steps.append(normalizers.Strip(left=False, right=True))
    return normalizers.Sequence(steps)


def _character_class(characters: str) -> str:
    """Return sorted characters as ranges of code points, for use inside ``[]``."""
    ranges: list[list[int]] = []
    for point in map(ord, characters):
        if ranges and ranges[-1][1] == point - 1:
            ranges[-1][1] = point
        else:
            ranges.append([point, point])
    return "".join(rf"\x{{{first:x}}}-\x{{{last:x}}}" for first, last in ranges)
