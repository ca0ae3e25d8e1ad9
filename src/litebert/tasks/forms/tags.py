"""A tag for each word of a text, such as named entities."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from litebert.model.config import IGNORED_LABEL
from litebert.tasks.base import Example, Examples, Feature, Features, Form, Prediction, Predictions, Said
from litebert.tasks.forms.arrays import require_labels, softmax
from litebert.tasks.forms.requests import Cells, RowError, label_index, required_list, required_text, split_cell
from litebert.tasks.forms.rows import encode_unique, single_row
from litebert.tasks.metrics import entities, entity_scores
from litebert.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class TagForm(Form):
    """Words -> a label at each one's first piece; long texts are cut into several features."""

    kind = "token_classification"
    heads = ("token_classification",)
    recipe = "tags"
    columns = ("words", "label")
    main_metric = "f1"
    how_bad = "wrong tags"
    needs_labels = True
    one_of_several = True

    split_punctuation: bool = True

    def parse(self, record: Mapping[str, object], id: str) -> Example:
        """Read ``words``, or ``text`` to be cut as the words of the training data were."""
        if "words" in record:
            return Example(id, "", words=required_list(record, "words", at_least=1))
        text = required_text(record, "text")
        return Example(id, text, words=split_words(text, self.split_punctuation))

    def fitted(self, train: Examples) -> Self:
        """Cut at punctuation unless the training words have it at their ends."""
        words = [word for example in train for word in example.words]
        apart = sum(all(map(_is_punctuation, word)) for word in words)
        attached = sum(len(word) > 1 and word[-1] in ",.;:!?)" for word in words) - apart
        return replace(self, split_punctuation=apart >= attached)

    def read_row(self, cells: Cells, id: str) -> Example:
        """Read ``words``: a list, or a text split at spaces."""
        return Example(id, "", words=cells.texts("words"))

    def features(self, examples: Examples, tokenizer: Tokenizer, max_length: int) -> Features:
        """Return one feature per stretch of words that fits."""
        encoded = encode_unique((word for e in examples for word in e.words), tokenizer)
        budget = max_length - 2
        # A word that vanishes in normalisation still needs a place for its tag.
        pieces = {word: (ids or [tokenizer.unk_id])[:budget] for word, ids in encoded.items()}
        features = []
        for index, example in enumerate(examples):
            begin = 0
            while begin < len(example.words):
                ids: list[int] = []
                positions: list[int] = []
                for word in example.words[begin:]:
                    if len(ids) + len(pieces[word]) > budget:
                        break
                    positions.append(len(ids) + 1)
                    ids += pieces[word]
                end = begin + len(positions)
                row = single_row(ids, tokenizer, max_length)
                target = None
                if isinstance(example.gold, tuple):
                    target = np.full(len(row), IGNORED_LABEL, np.int64)
                    target[positions] = np.array(example.gold[begin:end], np.int64)
                features.append(Feature(index, (row,), target, word_positions=np.array(positions, np.int64)))
                begin = end
        return features

    def decode(self, examples: Examples, features: Features, said: Said) -> list[Prediction]:
        """Take the likeliest tag of each word; ``scores`` holds its probability."""
        tags: dict[int, list[int]] = defaultdict(list)
        scores: dict[int, list[float]] = defaultdict(list)
        for feature, output in zip(features, said, strict=True):
            assert feature.word_positions is not None, "a tag feature has word positions"
            logits = output["token_logits"][feature.word_positions]
            require_labels(logits.shape[-1], self.labels)
            probabilities = softmax(logits)
            tags[feature.example] += probabilities.argmax(axis=-1).tolist()
            scores[feature.example] += probabilities.max(axis=-1).tolist()
        return [Prediction(e.id, tuple(tags[index]), tuple(scores[index])) for index, e in enumerate(examples)]

    def describe(self, example: Example, prediction: Prediction) -> dict[str, object]:
        """Return the words, their tags, and the entities with their characters in the text (or the joined words)."""
        tags = self._names(prediction.value)
        text = example.text or " ".join(example.words)
        starts, end = [], 0
        for word in example.words:
            starts.append(text.index(word, end))
            end = starts[-1] + len(word)
        found = []
        for kind, begin, last in sorted(entities(tags), key=lambda entity: entity[1]):
            start, end = starts[begin], starts[last - 1] + len(example.words[last - 1])
            score = sum(prediction.scores[begin:last]) / (last - begin)
            place = {"first_word": begin, "start": start, "end": end}
            found.append({"type": kind, "text": text[start:end], **place, "score": score})
        return {"words": list(example.words), "tags": tags, "scores": list(prediction.scores), "entities": found}

    def read_label(self, value: object, example: Example, separator: str) -> tuple[int, ...]:
        """Read as many tags as there are words: a list, or a text split at spaces."""
        tags = tuple(label_index(self.labels, tag) for tag in split_cell(value, None))
        if len(tags) != len(example.words):
            raise RowError("missing tags", f"{len(tags)} tags for {len(example.words)} words")
        return tags

    def items(self, value: object) -> set[tuple[str, int, int]]:
        """Return the entities."""
        return entities(self._names(value))

    def written(self, prediction: Prediction) -> object:
        """Return the names of the tags."""
        return self._names(prediction.value)

    def named(self, example: Example | None, value: object) -> object:
        """Return the names of the tags as one text."""
        return " ".join(self._names(value))

    def score(self, examples: Examples, predictions: Predictions) -> dict[str, float]:
        """Return precision, recall and F1 over whole entities, and the accuracy over words."""
        gold, predicted = [self._names(e.gold) for e in examples], [self._names(p.value) for p in predictions]
        return entity_scores(gold, predicted)

    def baseline(self, train: Examples, examples: Examples) -> list[Prediction]:
        """Always say the most frequent tag."""
        tag = Counter(tag for e in train if isinstance(e.gold, tuple) for tag in e.gold).most_common(1)[0][0]
        assert isinstance(tag, int)
        return [Prediction(e.id, (tag,) * len(e.words)) for e in examples]

    def _names(self, tags: object) -> list[str]:
        assert isinstance(tags, tuple), "tags come as tuples"
        return [self.labels[tag] for tag in tags]


def split_words(text: str, punctuation: bool = True) -> tuple[str, ...]:
    """Cut a text at spaces and, as annotated corpora do, before and after punctuation.

    >>> split_words("Ann's (old) house, U.S., cost $3.5.")
    ('Ann', "'s", '(', 'old', ')', 'house', ',', 'U.S.', ',', 'cost', '$', '3.5', '.')
    """
    if not punctuation:
        return tuple(text.split())
    words: list[str] = []
    for chunk in text.split():
        first, last = 0, len(chunk)
        while first < last and _is_punctuation(chunk[first]) and chunk[first] not in "#@":
            first += 1
        while last > first and _is_punctuation(chunk[last - 1]):
            last -= 1
        core, after = chunk[first:last], chunk[last:]
        if after[:1] == "." and "." in core and _LETTERS.fullmatch(core):  # U.S.
            core, after = core + ".", after[1:]
        owner = core[:-2] if core[-2:] in ("'s", "’s") else core
        words += [*chunk[:first], owner, core[len(owner) :], *after]
    return tuple(word for word in words if word)


_LETTERS = re.compile(r"([^\W\d]\.)*[^\W\d]")


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character)[0] == "P" or unicodedata.category(character) == "Sc"
