"""`litebert tokenizer`: train a vocabulary, turn lines into piece ids."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Annotated

from litebert.commands.flags import SEVERAL, SWITCHES
from litebert.common.errors import DataError
from litebert.common.files import atomic_folder
from litebert.text.foreign import number_vocabulary
from litebert.text.tokenizer import Tokenizer, TokenizerSettings, open_tokenizer
from litebert.text.train import TokenizerTrainConfig, train_tokenizer


def train(*, config: Annotated[TokenizerTrainConfig, SWITCHES]) -> None:
    """Train a SentencePiece unigram vocabulary from text.

    The folder holds spiece.model, tokenizer.json and tokenizer_config.json; transformers'
    AutoTokenizer reads it and gives the same ids.

    Examples:
        litebert tokenizer train --input corpus/wiki.txt.xz --out tokenizer
        litebert tokenizer train --input corpus/ "more/*.jsonl" --out tokenizer --vocab-size 8000
        litebert tokenizer train --input de.txt --out tok-de --language de --cased
        litebert tokenizer train --input ja.txt --out ja --language ja --character-coverage 0.9995
    """
    tokenizer = train_tokenizer(config)
    case, rule = "lower-cased" if tokenizer.settings.lower else "cased", tokenizer.settings.normalization
    print(f"{config.out}: {tokenizer.vocab_size:,} pieces, {case}, normalization {rule}")


def numbers(*, size: int, out: Path, specials: Annotated[list[int] | None, SEVERAL] = None) -> None:
    """Write a vocabulary whose pieces are numbers, for `litebert prepare --ids`.

    Examples:
        litebert tokenizer numbers --size 178 --specials 0 1 2 3 4 --out tokenizer-phonemes

    Args:
        size: number of ids, 0 to size - 1.
        out: folder for the tokenizer; it must not exist, or be empty.
        specials: ids of padding, unknown, [CLS], [SEP] and [MASK]; default: 0 1 2 3 4.
    """
    model = number_vocabulary(size, specials or range(5))
    with atomic_folder(out) as folder:
        open_tokenizer(model, TokenizerSettings()).save(folder)
    print(f"{out}: {size:,} numbers")


def encode(*, tokenizer: Path) -> None:
    """Turn lines of standard input into piece ids, one JSON list a line, without [CLS] and [SEP].

    Examples:
        echo "The state of the art" | litebert tokenizer encode --tokenizer tokenizer
        litebert tokenizer encode --tokenizer tokenizer < text.txt > ids.jsonl

    Args:
        tokenizer: tokenizer or model folder; one with only spiece.model will do.
    """
    loaded = Tokenizer.load(tokenizer)
    for lines in _line_batches(sys.stdin.buffer):
        for ids in loaded.encode_batch(lines):
            print(json.dumps(ids))
        sys.stdout.flush()


def _line_batches(stream: IO[bytes]) -> Iterator[list[str]]:
    """Yield the lines that have arrived, as soon as they have: a pipe answers line by line."""
    read = getattr(stream, "read1", stream.read)
    rest: list[bytes] = []
    number = 1
    while data := read(1 << 20):
        if b"\n" not in data:
            rest.append(data)
            continue
        whole, _, tail = data.rpartition(b"\n")
        lines = b"".join([*rest, whole]).split(b"\n")
        rest = [tail]
        yield from _decode(lines, number)
        number += len(lines)
    if last := b"".join(rest):
        yield from _decode([last], number)


def _decode(lines: list[bytes], first_number: int) -> Iterator[list[str]]:
    """Yield the lines as text; those before a broken one are still answered."""
    texts: list[str] = []
    for number, line in enumerate(lines, start=first_number):
        try:
            texts.append(line.decode("utf-8"))
        except UnicodeDecodeError as error:
            yield texts
            why = f"not UTF-8 ({error.reason} at byte {error.start}); convert it, for example with iconv"
            raise DataError(f"standard input, line {number}: {why}") from None
    yield texts
