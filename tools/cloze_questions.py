"""Questions made from plain text, in SQuAD's format, for a model that has few questions of people to learn from.

A few words of a sentence become the answer. What stands around them becomes the question, some of its words left out,
with a question word that suits the answer; the passage is the paragraph. A model that learns it looks for where the
words of a question gather in a passage, and takes what is missing there. A small model finds that out with short
passages and whole sentences first, and goes on to harder ones. (The idea is that of Lewis et al. 2019, "Unsupervised
Question Answering by Cloze Translation"; answers are found by capitals, digits and common words here, without a
parser.) English.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from reservoir import drawn

from litebert.common.files import write_json
from litebert.text.corpus import TextLines
from litebert.text.sentences import split_sentences

_MIN_SENTENCE_WORDS = 8
_AROUND = 12
"""words on each side of an answer that may stand in its question"""
_LONGEST_ANSWER = 5
_FUNCTION_WORDS = """
a an the of in on at to for from by with as and or but nor is are was were be been being has have had do does did will
would can could may might must shall should not no that which who whom whose this these those it its he she his her him
they them their there then than when where while if so such also into over under between during after before about
against through both each other some any all more most many much one only own same very out up down off we our you your
"""
_COMMON = frozenset(_FUNCTION_WORDS.split())
_YEAR = re.compile(r"1[0-9]{3}|20[0-9]{2}")
_QUESTION_WORDS = {
    "year": (("when", 5), ("what year", 3), ("in what year", 2)),
    "number": (("how many", 7), ("how much", 1), ("what", 2)),
    "name": (("who", 4), ("what", 4), ("which", 1), ("where", 2)),
    "thing": (("what", 8), ("which", 1), ("how", 1)),
}
_KINDS = {"year": 2, "number": 2, "name": 8, "thing": 8}
"""how often an answer of each kind is taken where a sentence has all of them"""


Part = Literal["before", "asking", "after"]


class Level(NamedTuple):
    """How hard the questions are: shares of words left out of them, and how often their parts stand in which order."""

    passage_words: range
    common: float
    content: float
    orders: dict[tuple[Part, Part, Part], int]


_ASKING_FIRST: tuple[Part, Part, Part] = ("asking", "before", "after")
_AS_WRITTEN: tuple[Part, Part, Part] = ("before", "asking", "after")
_TURNED: tuple[Part, Part, Part] = ("asking", "after", "before")
LEVELS = {
    "easy": Level(range(30, 81), 0.0, 0.0, {_AS_WRITTEN: 1}),
    "medium": Level(range(40, 141), 0.25, 0.08, {_AS_WRITTEN: 5, _ASKING_FIRST: 3, _TURNED: 2}),
    "hard": Level(range(50, 221), 0.4, 0.15, {_ASKING_FIRST: 5, _TURNED: 3, _AS_WRITTEN: 2}),
}


class Candidate(NamedTuple):
    """Words [first, last] of a sentence that may be an answer."""

    kind: str
    first: int
    last: int


def candidates(words: Sequence[str]) -> list[Candidate]:
    """Years, other numbers, names (runs of capitalised words) and things (runs of other words that are not common)."""
    found: list[Candidate] = []
    kinds = [_kind(word, is_first=place == 0) for place, word in enumerate(words)]
    place = 0
    while place < len(words):
        kind, last = kinds[place], place
        if kind in ("name", "thing"):
            # Punctuation between two words ends a run.
            while kinds[last + 1 : last + 2] == [kind] and (words[last][-1] + words[last + 1][0]).isalnum():
                last += 1
        if kind is not None and last - place < _LONGEST_ANSWER:
            found.append(Candidate(kind, place, last))
        place = last + 1
    return found


def ask(words: Sequence[str], answer: Candidate, level: Level, generator: random.Random) -> str:
    """Make the question: a question word and what is left of the words around the answer."""
    parts = {
        "before": _kept(words[max(0, answer.first - _AROUND) : answer.first], level, generator),
        "after": _kept(words[answer.last + 1 : answer.last + 1 + _AROUND], level, generator),
    }
    choices, weights = zip(*_QUESTION_WORDS[answer.kind], strict=True)
    parts["asking"] = generator.choices(choices, weights)
    order, *others = level.orders
    if others:
        (order,) = generator.choices([order, *others], list(level.orders.values()))
    question = " ".join(word for part in order for word in parts[part])
    return question[:1].upper() + question[1:] + "?"


def questions(passage: str, count: int, level: Level, generator: random.Random) -> Iterator[tuple[str, str, int]]:
    """Up to ``count`` questions of different sentences, each with its answer and the character where that begins."""
    sentences, place = [], 0
    for sentence in split_sentences(passage, "en"):
        place = passage.index(sentence.strip(), place)
        sentences.append((place, sentence.strip()))
    for begin, sentence in generator.sample(sentences, len(sentences)):
        found = list(re.finditer(r"\S+", sentence))
        words = [match.group() for match in found]
        possible = candidates(words) if len(words) >= _MIN_SENTENCE_WORDS else []
        if not possible or count <= 0:
            continue
        in_kind = Counter(candidate.kind for candidate in possible)
        answer = generator.choices(possible, [_KINDS[c.kind] / in_kind[c.kind] for c in possible])[0]
        first, last = found[answer.first].start(), found[answer.last].end()
        inside = re.search(r"\w.*\w|\w", sentence[first:last])
        question = ask(words, answer, level, generator)
        if inside is None or len(question.split()) < 5:
            continue
        count -= 1
        yield question, inside.group(), begin + first + inside.start()


def as_squad(passages: Sequence[str], per_passage: int, level: Level, name: str, seed: int) -> dict[str, object]:
    """The content of a SQuAD 1.1 file."""
    generator = random.Random(seed)
    paragraphs = []
    for number, passage in enumerate(passages):
        asked = [
            {"id": f"{name}-{number}-{place}", "question": question, "answers": [{"text": text, "answer_start": start}]}
            for place, (question, text, start) in enumerate(questions(passage, per_passage, level, generator))
        ]
        if asked:
            paragraphs.append({"context": passage, "qas": asked})
    return {"version": "1.1", "data": [{"title": name, "paragraphs": paragraphs}]}


def main() -> None:
    """Write train-v1.1.json and dev-v1.1.json, the --data of `litebert finetune squad1`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="folder to write")
    parser.add_argument("--input", type=Path, nargs="+", required=True, help="text files with a paragraph a line")
    parser.add_argument("--level", choices=LEVELS, default="easy", help="a small model begins with the easy ones")
    parser.add_argument("--passages", type=int, default=8_000, help="paragraphs drawn for training")
    parser.add_argument("--dev-passages", type=int, default=200)
    parser.add_argument("--per-passage", type=int, default=3, help="questions of each, at most")
    parser.add_argument("--not-in", type=Path, nargs="*", default=[], help="SQuAD files whose passages are left out")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    known = {
        _key(paragraph["context"])
        for path in options.not_in
        for article in json.loads(path.read_text(encoding="utf-8"))["data"]
        for paragraph in article["paragraphs"]
    }
    level = LEVELS[options.level]
    lines = (line.strip() for line in TextLines(options.input))
    fit = (line for line in lines if len(line.split()) in level.passage_words and _key(line) not in known)
    passages = drawn(fit, options.passages + options.dev_passages, options.seed)
    if len(passages) < options.passages + options.dev_passages:
        fitting = f"{len(passages):,} paragraphs of {level.passage_words[0]} to {level.passage_words[-1]} words"
        raise SystemExit(f"the texts have {fitting}; --passages and --dev-passages ask for more")
    random.Random(options.seed).shuffle(passages)
    options.out.mkdir(parents=True, exist_ok=True)
    for name, part in (("dev", passages[: options.dev_passages]), ("train", passages[options.dev_passages :])):
        content = as_squad(part, options.per_passage, level, name, options.seed)
        write_json(options.out / f"{name}-v1.1.json", content)


def _kind(word: str, *, is_first: bool) -> str | None:
    bare = word.strip(".,;:!?()[]\"'")
    if not bare or bare.lower() in _COMMON:
        return None
    if any(letter.isdigit() for letter in bare):
        return "year" if _YEAR.fullmatch(bare) else "number"
    if not bare[0].isalpha():
        return None
    return None if is_first else "name" if bare[0].isupper() else "thing"


def _kept(words: Sequence[str], level: Level, generator: random.Random) -> list[str]:
    """Most of the words, without punctuation at their ends."""
    bare = [stripped for word in words if (stripped := word.strip(".,;:!?()[]\"'"))]
    return [w for w in bare if generator.random() >= (level.common if w.lower() in _COMMON else level.content)]


def _key(passage: str) -> str:
    """What a passage is known by in texts that differ in spaces and notes: the letters of its first sentence or so."""
    return re.sub(r"[^a-z]", "", passage.lower())[:60]


if __name__ == "__main__":
    main()
