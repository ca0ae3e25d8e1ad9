"""Train a SentencePiece vocabulary the official way and write its folder."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from litebert.common.config import check_range
from litebert.common.errors import ConfigError, DataError
from litebert.common.files import atomic_folder
from litebert.common.progress import Progress, progress, say
from litebert.common.rng import rng
from litebert.text.corpus import TextLines, find_files, total_bytes
from litebert.text.normalize import Normalization, normalize
from litebert.text.spiece import SentencePieceTokenizer
from litebert.text.tokenizer import SPECIAL_PIECES, DigitComma, TokenizerSettings

OFFICIAL_SYMBOLS = ("(", ")", '"', "-", ".", "–", "£", "€")
MAX_SENTENCE_CHARACTERS = 256
"""A longer line is cut between words, for SentencePiece skips what is longer than 4,192 bytes."""
_SHUFFLED_SENTENCES = 1 << 16

# SentencePiece sums counts per thread, so their number is part of the result: it is not the number
# of cores. 16 is its default, with which the official vocabulary was trained.
_NUM_THREADS = 16
_DOTLESS = ("tr", "az")
_SAMPLED_LINES = 10_000
_NOTABLE_SHARE = 0.02
_DIGIT_COMMA = re.compile(r"(?<=\d),")


@dataclass(frozen=True)
class TokenizerTrainConfig:
    """How a vocabulary is learnt; the defaults are the official command's."""

    input: tuple[Path, ...]
    """files, folders or quoted globs of plain text, .jsonl or .parquet, also .gz, .xz or .zst"""
    out: Path
    """folder for the tokenizer; it must not exist, or be empty"""
    vocab_size: int = 30000
    """number of pieces"""
    shrink: bool = False
    """accept fewer pieces where the text is too small for that many"""
    cased: bool = False
    """keep upper case"""
    normalization: Normalization | None = None
    """accents: dropped (official), kept (keep-accents), text as it is (none); by --language"""
    language: str = ""
    """ISO 639 code of the text; of any but English the letters are kept"""
    character_coverage: float = 0.99995
    """share of the text's characters that get a piece; 0.9995 suits Chinese or Japanese"""
    byte_fallback: bool = False
    """write characters without a piece as bytes instead of <unk>"""
    digit_comma: DigitComma = "official"
    """rule for pieces such as `1998,`; unless off, none are learnt, so that any tool agrees"""
    symbols: tuple[str, ...] = OFFICIAL_SYMBOLS
    """symbols that always are pieces of their own"""
    max_sentences: int = 10_000_000
    """sentences to train on, of at most 256 characters; of more a sample is taken"""
    column: str = "text"
    """name of the text in JSON lines and Parquet"""
    max_length: int = 512
    """longest sequence of the models to come, noted for other tools"""

    def __post_init__(self) -> None:
        if not self.input:
            raise ConfigError("no input given; name files, folders or globs with --input")
        smallest = len(SPECIAL_PIECES) + len(self.symbols) + 256 * self.byte_fallback + 1
        check_range(self, "1 or more", "vocab_size", most=1_000_000)
        check_range(self, "1 or more", "max_sentences", most=1_000_000_000)
        check_range(self, "8 or more", "max_length")
        if self.vocab_size < smallest:
            raise ConfigError(f"vocab_size {self.vocab_size} is too small; {smallest} are reserved")
        if not 0.9 <= (share := self.character_coverage) <= 1.0:
            raise ConfigError(f"character_coverage {share} is out of range; choose 0.98 to 1")
        if self.max_sentences <= 100:
            raise ConfigError(f"max_sentences {self.max_sentences} is too small; choose over 100")
        if self.language and not re.fullmatch(r"[A-Za-z]{2,3}([-_]\w+)*", self.language):
            raise ConfigError(f"language {self.language!r} is not an ISO 639 code; write one such as de or zh")

    @property
    def settings(self) -> TokenizerSettings:
        """What the tokenizer will do beside its pieces; text as it is keeps its case too."""
        rule, _ = self.choice
        lower = not self.cased and rule != "none"
        return TokenizerSettings(lower, self.digit_comma, self.max_length, rule, language=self.language)

    @property
    def choice(self) -> tuple[Normalization, str]:
        """The normalisation, and why it is that one."""
        if self.normalization is not None:
            return self.normalization, "as asked"
        if not self.language:
            return "official", "no --language given: as in ALBERT, accents are dropped"
        if re.match(r"en([-_]|g$|$)", self.language.lower()):
            return "official", f"language {self.language}: as in ALBERT"
        return "keep-accents", f"language {self.language}: letters keep their accents"


def train_tokenizer(config: TokenizerTrainConfig) -> SentencePieceTokenizer:
    """Learn a unigram vocabulary and write its folder; the number of cores plays no part."""
    files = find_files(config.input)
    size = total_bytes(files)
    say(f"normalization {config.choice[0]} ({config.choice[1]})")
    if config.settings.lower and config.language.lower()[:2] in _DOTLESS:
        say(f"language {config.language} tells i from ı: lower-casing does not, --cased does")
    with atomic_folder(config.out) as folder:
        lines = TextLines(files, config.column)
        total = None if size is None else size / 1e6
        with progress(f"tokenizer with {config.vocab_size:,} pieces", total, "MB") as bar:
            model = _train(_shuffle(_sentences(lines, config, bar)), config)
        if lines.num_broken:
            say(f"left out {lines.num_broken:,} lines that are not text, the first at {lines.first_broken}")
        tokenizer = SentencePieceTokenizer(model, config.settings)
        tokenizer.save(folder)
    return tokenizer


def _sentences(lines: TextLines, config: TokenizerTrainConfig, bar: Progress) -> Iterator[str]:
    """Yield normalised training sentences, a symbol between digits and commas, at which SentencePiece cuts.

    The 141 official pieces that have both are dead weight: the digit-comma rule splits them again, inside a word with a
    word mark that other tools do not add.
    """
    boundary = f"{config.symbols[0]}," if config.digit_comma != "off" and config.symbols else ""
    reported = num_sampled = num_bare = 0
    settings = config.settings
    may_differ = config.normalization is None and settings.normalization == "official"
    for line in lines:
        text = normalize(line, settings.lower, settings.normalization)
        if may_differ and num_sampled < _SAMPLED_LINES:
            num_sampled += bool(text)
            num_bare += text != normalize(line, settings.lower, "keep-accents")
        if boundary and "," in text:
            text = _DIGIT_COMMA.sub(boundary, text)
        yield from _cut(text)
        if lines.num_bytes - reported >= 1_000_000:
            bar.advance((lines.num_bytes - reported) / 1e6)
            reported = lines.num_bytes
    bar.advance((lines.num_bytes - reported) / 1e6)
    bar.update(f"{lines.num_lines:,} lines read, learning the pieces")
    if num_bare > _NOTABLE_SHARE * num_sampled:
        lose = f"{num_bare / num_sampled:.0%} of the lines lose accents or other marks"
        say(f"{lose}: if they matter, train again with --language CODE or --normalization keep-accents")


def _shuffle(sentences: Iterator[str]) -> Iterator[str]:
    """Shuffle within groups: SentencePiece takes quadratic time over repeated documents, which every corpus has."""
    groups = iter(lambda: list(islice(sentences, _SHUFFLED_SENTENCES)), [])
    for number, group in enumerate(groups):
        for index in rng(0, "tokenizer", number).permutation(len(group)):
            yield group[index]


def _cut(text: str) -> Iterator[str]:
    start = 0
    while len(text) - start > MAX_SENTENCE_CHARACTERS:
        last_space = text.rfind(" ", start, start + MAX_SENTENCE_CHARACTERS)
        end = last_space if last_space > start else start + MAX_SENTENCE_CHARACTERS
        yield text[start:end]
        start = end
    if len(text) > start:
        yield text[start:]


def _train(sentences: Iterator[str], config: TokenizerTrainConfig) -> bytes:
    import sentencepiece

    pad, unk, *control = SPECIAL_PIECES
    first: dict[str, Any] = {"pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1, "pad_piece": pad, "unk_piece": unk}
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=sentences,
            model_writer=model,
            model_type="unigram",
            vocab_size=config.vocab_size,
            hard_vocab_limit=not config.shrink,
            character_coverage=config.character_coverage,
            byte_fallback=config.byte_fallback,
            normalization_rule_name="identity" if config.choice[0] == "none" else "nmt_nfkc",
            **first,
            control_symbols=control,
            user_defined_symbols=list(config.symbols),
            input_sentence_size=config.max_sentences,
            shuffle_input_sentence=True,
            num_threads=_NUM_THREADS,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise _explain(str(error), config) from None
    return model.getvalue()


def _explain(message: str, config: TokenizerTrainConfig) -> ConfigError | DataError:
    """Turn SentencePiece's check failures into a line that says what to do."""
    if found := re.search(r"Vocabulary size too high.*<= (\d+)", message):
        remedy = f"set --vocab-size {found[1]} or less, give more text, or add --shrink"
        return DataError(f"the text is too small for {config.vocab_size:,} pieces; {remedy}")
    if found := re.search(r"smaller than required_chars\. (\d+) vs (\d+)", message):
        problem = f"vocab_size {config.vocab_size} does not hold the text's characters"
        return ConfigError(f"{problem}; set at least {found[2]}, or lower --character-coverage")
    if "sentences_.empty()" in message:
        return DataError(f"no text in {', '.join(map(str, config.input))}")
    return DataError(f"SentencePiece cannot train: {' '.join(message.split())}")
