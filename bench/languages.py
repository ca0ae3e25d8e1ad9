"""Twelve languages through the tokenizer, on the translated handbooks and help texts of Debian.

    python bench/languages.py --text FOLDER               download, unpack, measure; a table
    python bench/languages.py --text FOLDER --show 20     also the words of 20 lines for the eye
    python bench/languages.py --text FOLDER --languages ko de
    python bench/languages.py --text FOLDER --languages ko de --write OUT     only OUT/CODE.txt each
    python bench/languages.py --text FOLDER --languages ko --write-task OUT   only OUT/CODE/*.tsv

Packages are fetched with `apt-get download` and unpacked with `dpkg -x`, never installed. A line is
a paragraph; lines that stand in two languages (not translated) and lines mostly in another script
are left out. For each language and normalisation a vocabulary is learnt from one part of the lines
and measured on 2,000 others (half of all if there are fewer than 4,000): unknown pieces, pieces per
word (per character in scripts without spaces), lines that come back from their ids as they were,
case aside, and lines whose ids through transformers' AutoTokenizer are others than ours.

The task is a paragraph of LibreOffice's help, the label its program; train.tsv and dev.tsv are of
different pages.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
from machine import on_this_machine

from litebert.common.rng import rng
from litebert.data.batches.example import Vocabulary
from litebert.data.batches.inspect import words_of
from litebert.text.normalize import Normalization
from litebert.text.spiece import SentencePieceTokenizer
from litebert.text.train import TokenizerTrainConfig, train_tokenizer

HANDBOOK = "debian-handbook"
# Language -> its folder in the handbook, and whether LibreOffice's help has it.
LANGUAGES = {
    "ko": ("ko-KR", True), "ja": ("ja-JP", True), "zh": ("zh-CN", True), "hi": ("hi-IN", True),
    "ar": ("ar-MA", False), "vi": ("vi-VN", True), "de": ("de-DE", True), "fr": ("fr-FR", True),
    "sv": ("sv-SE", True), "ru": ("ru-RU", True), "tr": ("tr-TR", True), "el": ("el-GR", True),
}  # fmt: skip
HELP_NAMES = {"zh": "zh-cn"}
OTHER_SCRIPTS = ("ko", "ja", "zh", "hi", "ar", "ru", "el")
BY_CHARACTER = ("ja", "zh")
SHORTEST = 15
"""Characters of a line."""
TEST_LINES = 2_000
TRAIN_LINES = 12_000
VOCABULARY = 8_000
PROGRAMS = ("scalc", "swriter", "simpress", "sbasic")
"""Labels of the task: folders of the help."""
TASK_LINES = 600
"""Of each label, at most."""
RULES: tuple[Normalization, ...] = ("official", "keep-accents", "none")


class Paragraphs(HTMLParser):
    """The paragraphs of a page, one line each."""

    BLOCKS = frozenset({"p", "li", "td", "dt", "dd", "h1", "h2", "h3", "h4"})
    LEFT_OUT = frozenset({"pre", "code", "script", "style", "head", "nav"})

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._text: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        """Begin a paragraph, or something that is not text."""
        self._hidden += tag in self.LEFT_OUT
        if tag in self.BLOCKS:
            self.end_line()

    def handle_endtag(self, tag: str) -> None:
        """End it."""
        self._hidden -= tag in self.LEFT_OUT and self._hidden > 0
        if tag in self.BLOCKS:
            self.end_line()

    def handle_data(self, data: str) -> None:
        """Collect text."""
        if not self._hidden:
            self._text.append(data)

    def end_line(self) -> None:
        """Keep the paragraph if it is more than a caption."""
        line = " ".join("".join(self._text).split())
        if len(line) >= SHORTEST:
            self.lines.append(line)
        self._text.clear()


def fetch(folder: Path, languages: list[str]) -> None:
    """Download and unpack the packages that are not there yet."""
    helps = [f"libreoffice-help-{HELP_NAMES.get(code, code)}" for code in languages
             if LANGUAGES[code][1]]  # fmt: skip
    for package in (HANDBOOK, *helps):
        target = folder / package
        if target.is_dir():
            continue
        with tempfile.TemporaryDirectory() as temporary:
            subprocess.run(["apt-get", "download", package], cwd=temporary, check=True)
            (file,) = Path(temporary).glob("*.deb")
            target.mkdir(parents=True)
            subprocess.run(["dpkg", "-x", file, target], check=True)


def lines_of(folder: Path, code: str) -> list[str]:
    """The lines of a language, each once, in the order of the files."""
    return [line for page in pages_of(folder, code) for line in page]


def pages_of(folder: Path, code: str) -> Iterator[list[str]]:
    """The lines of each page of a language; a line that stands on several is of the first."""
    return (lines for _, lines in named_pages_of(folder, code))


def named_pages_of(folder: Path, code: str) -> Iterator[tuple[Path, list[str]]]:
    """Each page's file and lines."""
    name, has_help = LANGUAGES[code]
    pages = sorted((folder / HANDBOOK).rglob(f"html/{name}/*.html"))
    if has_help:
        pages += sorted((folder / f"libreoffice-help-{HELP_NAMES.get(code, code)}").rglob("*.html"))
    found: dict[str, None] = {}
    for page in pages:
        parser = Paragraphs()
        parser.feed(page.read_text(encoding="utf-8", errors="replace"))
        parser.end_line()
        new = [line for line in dict.fromkeys(parser.lines) if line not in found]
        found.update(dict.fromkeys(new))
        yield page, [line for line in new if code not in OTHER_SCRIPTS or _is_foreign(line)]


def _is_foreign(line: str) -> bool:
    letters = [c for c in line if c.isalpha()]
    return sum(not c.isascii() for c in letters) > 0.5 * len(letters)


def write_task(folder: Path, code: str, out: Path) -> None:
    """Paragraphs of the help, each with its program; every fifth page is dev."""
    rows: dict[str, list[str]] = {"train": ["label\ttext"], "dev": ["label\ttext"]}
    count: Counter[str] = Counter()
    pages = [
        (page.parts[page.parts.index("text") + 1], lines)
        for page, lines in named_pages_of(folder, code)
        if "text" in page.parts
    ]
    for number in rng(0, "pages").permutation(len(pages)).tolist():
        program, lines = pages[number]
        taken = lines[: TASK_LINES - count[program]] if program in PROGRAMS else []
        count[program] += len(taken)
        split = "train" if number % 5 else "dev"
        rows[split] += [f"{program}\t{line}" for line in taken]
    out.mkdir(parents=True, exist_ok=True)
    for split, found in rows.items():
        (out / f"{split}.tsv").write_text("\n".join(found) + "\n", encoding="utf-8")
        print(f"{out / split}.tsv: {len(found) - 1:,} paragraphs", file=sys.stderr)


def train(lines: list[str], code: str, rule: Normalization, out: Path) -> SentencePieceTokenizer:
    """Learn a vocabulary."""
    text = out.with_suffix(".txt")
    text.write_text("\n".join(lines), encoding="utf-8")
    coverage = 0.9995 if code in BY_CHARACTER else 0.99995
    return train_tokenizer(
        TokenizerTrainConfig(
            input=(text,),
            out=out,
            vocab_size=VOCABULARY,
            shrink=True,
            character_coverage=coverage,
            language=code,
            normalization=rule,
        )
    )


def measure(code: str, lines: list[str], work: Path, show: int) -> str:
    """A row of the table."""
    from transformers import AutoTokenizer

    order = rng(0, "languages").permutation(len(lines)).tolist()
    num_test = min(TEST_LINES, len(lines) // 2)
    test = [lines[i] for i in order[:num_test]]
    learn = [lines[i] for i in order[num_test : num_test + TRAIN_LINES]]
    columns = [code, f"{len(test):,}", f"{len(learn):,}"]
    came_back, others = [], []
    for rule in RULES:
        folder = work / f"{code}-{rule}"
        tokenizer = train(learn, code, rule, folder)
        ids = tokenizer.encode_batch(test)
        expected = [line.lower() if tokenizer.settings.lower else line for line in test]
        same = [tokenizer.decode(i) == line for i, line in zip(ids, expected, strict=True)]
        came_back.append(f"{np.mean(same):.1%}")
        fast = AutoTokenizer.from_pretrained(folder, model_max_length=10**9)
        theirs = fast(test, add_special_tokens=False)["input_ids"]
        different = [line for line, a, b in zip(test, ids, theirs, strict=True) if a != b]
        others.append(str(len(different)))
        for line in different[:3]:
            print(f"{code} {rule}: other ids: {line}", file=sys.stderr)
        if rule == "keep-accents":
            num_unknown = sum(i.count(tokenizer.unk_id) for i in ids)
            num_pieces = sum(map(len, ids))
            vocabulary = Vocabulary.of(tokenizer)
            words = [list(words_of(np.array(i), tokenizer, vocabulary)) for i in ids]
            units = (
                sum(len("".join(line.split())) for line in test)
                if code in BY_CHARACTER
                else sum(any(c.isalnum() for c in word) for row in words for word in row)
            )
            columns += [f"{num_unknown / num_pieces:.3%}", f"{num_pieces / units:.2f}"]
            for row in words[:show]:
                print(f"{code} words: {' | '.join(row)}")
    return "| " + " | ".join([*columns, *came_back, *others]) + " |"


def rows(folder: Path, languages: list[str], show: int) -> Iterator[str]:
    """Rows of the table, language by language."""
    lines = {code: lines_of(folder, code) for code in LANGUAGES if code in languages}
    seen = Counter(line for found in lines.values() for line in found)
    with tempfile.TemporaryDirectory() as work:
        for code, found in lines.items():
            own = [line for line in found if seen[line] == 1]
            yield measure(code, own, Path(work), show)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, required=True, help="folder for the packages")
    parser.add_argument("--languages", nargs="+", choices=LANGUAGES, default=list(LANGUAGES))
    parser.add_argument("--write", type=Path, help="write the text of each language, and no table")
    parser.add_argument("--write-task", type=Path, help="write the task, and no table")
    parser.add_argument("--show", type=int, default=0, help="lines to show as words")
    arguments = parser.parse_args()
    fetch(arguments.text, arguments.languages)
    for code in arguments.languages if arguments.write else ():
        pages = ("\n".join(page) for page in pages_of(arguments.text, code) if page)
        arguments.write.mkdir(parents=True, exist_ok=True)
        (arguments.write / f"{code}.txt").write_text("\n\n".join(pages), encoding="utf-8")
    for code in arguments.languages if arguments.write_task else ():
        write_task(arguments.text, code, arguments.write_task / code)
    if arguments.write or arguments.write_task:
        return
    names = ["language", "test lines", "training lines", "unknown", "pieces per word"]
    names += [f"{what} {rule}" for what in ("back,", "other ids,") for rule in RULES]
    print("| " + " | ".join(names) + " |\n|" + " --- |" * len(names))
    for row in rows(arguments.text, arguments.languages, arguments.show):
        print(row, flush=True)


if __name__ == "__main__":
    with on_this_machine():
        main()
