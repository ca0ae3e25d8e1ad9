"""Tags as annotators write them: schemes scored as seqeval does, words and characters."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seqeval.metrics import f1_score, precision_score, recall_score
from seqeval.metrics.sequence_labeling import get_entities
from seqeval.scheme import BILOU, IOB1, IOB2, IOBES

from litebert.common.errors import DataError
from litebert.tasks.base import Example, Prediction
from litebert.tasks.forms.tags import TagForm, split_words
from litebert.tasks.metrics import check_tags, entities, entity_scores
from litebert.tasks.scoring import scores_by_class

SCHEMES = {"IOB1": "IB", "IOB2": "BI", "IOBES": "BIES", "BILOU": "BILU"}
AS_IOBES = str.maketrans("LU", "ES")


def tags_of(prefixes: str) -> st.SearchStrategy[list[str]]:
    tags = ["O", *(f"{prefix}-{kind}" for prefix in prefixes for kind in ("LOC", "PER"))]
    return st.lists(st.sampled_from(tags), min_size=1, max_size=12)


@pytest.mark.parametrize("scheme", SCHEMES)
@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_any_tags_are_read_as_seqeval_reads_them(scheme: str, data: st.DataObject) -> None:
    """Also those that no annotator writes; of BILOU it knows the letters in strict mode only."""
    tags = data.draw(tags_of(SCHEMES[scheme]))
    same = [tag[0].translate(AS_IOBES) + tag[1:] for tag in tags]
    assert entities(tags) == {(kind, first, last + 1) for kind, first, last in get_entities(same)}


def written(spans: list[tuple[str, int]], scheme: str) -> list[str]:
    """Write entities (type, length) and gaps (empty type) in a scheme."""
    tags: list[str] = []
    for kind, length in spans:
        if not kind:
            tags += ["O"] * length
            continue
        follows_its_type = bool(tags) and tags[-1].endswith(kind)
        first = "I" if scheme == "IOB1" and not follows_its_type else "B"
        letters = [first, *"I" * (length - 1)]
        if scheme in ("IOBES", "BILOU"):
            single, end = ("S", "E") if scheme == "IOBES" else ("U", "L")
            letters = [single] if length == 1 else ["B", *"I" * (length - 2), end]
        tags += [f"{letter}-{kind}" for letter in letters]
    return tags


SPANS = st.lists(st.tuples(st.sampled_from(["", "LOC", "PER"]), st.integers(1, 3)), min_size=1, max_size=5)


@given(gold=SPANS, predicted=SPANS)
@settings(max_examples=150, deadline=None)
def test_clean_tags_score_as_in_seqevals_strict_mode(
    gold: list[tuple[str, int]], predicted: list[tuple[str, int]]
) -> None:
    """And every scheme gives the same figures for the same entities."""
    found = []
    for scheme, reader in {"IOB1": IOB1, "IOB2": IOB2, "IOBES": IOBES, "BILOU": BILOU}.items():
        one, two = written(gold, scheme), written(predicted, scheme)
        length = max(len(one), len(two))
        pair = [[tags + ["O"] * (length - len(tags))] for tags in (one, two)]
        scores = entity_scores(*pair)
        strict = {"mode": "strict", "scheme": reader, "zero_division": 0}
        assert scores["f1"] == pytest.approx(f1_score(*pair, **strict))
        assert scores["precision"] == pytest.approx(precision_score(*pair, **strict))
        assert scores["recall"] == pytest.approx(recall_score(*pair, **strict))
        found.append({name: scores[name] for name in ("f1", "precision", "recall")})
    assert all(scores == found[0] for scores in found)


def test_tags_with_the_prefix_at_the_end_are_refused() -> None:
    with pytest.raises(DataError, match="write B-PER, not PER-B"):
        check_tags(("O", "PER-B", "PER-I"), "names.conll")
    for fine in (("O", "B-PER"), ("NOUN", "VERB"), ("B", "I", "O"), ("O", "B-I", "I-I")):
        check_tags(fine, "names.conll")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Ann lives in Kyoto.", ["Ann", "lives", "in", "Kyoto", "."]),
        ("«Où?», dit-il…", ["«", "Où", "?", "»", ",", "dit-il", "…"]),
        ("U.S. (Ann's) 3.5%!", ["U.S.", "(", "Ann", "'s", ")", "3.5", "%", "!"]),
        ("東京。 हिन्दी।", ["東京", "。", "हिन्दी", "।"]),
        ("@ann #x -- ...", ["@ann", "#x", "-", "-", ".", ".", "."]),
    ],
)  # fmt: skip
def test_texts_are_cut_as_corpora_are(text: str, words: list[str]) -> None:
    assert list(split_words(text)) == words
    assert list(split_words(text, punctuation=False)) == text.split()


def form_of(*words: str) -> TagForm:
    return TagForm(labels=("O", "B-PER", "I-PER")).fitted([Example("0", "", words=words)])


def test_texts_are_cut_as_in_training() -> None:
    assert form_of("Ann", "sat", ".").parse({"text": "Kyoto."}, "0").words == ("Kyoto", ".")
    assert form_of("Ann", "sat").parse({"text": "Kyoto."}, "0").words == ("Kyoto", ".")
    assert form_of("Ann", "sat.").parse({"text": "Kyoto."}, "0").words == ("Kyoto.",)


def test_entities_have_characters() -> None:
    form = form_of("Ann", ".")
    text = "  Say:  “Ann  Lee”,\nAnn!"
    example = form.parse({"text": text}, "0")
    tags = tuple((1, 2, 0, 0, 1, 0)[max(0, n - 3)] if n >= 3 else 0
                 for n in range(len(example.words)))  # fmt: skip
    answer = form.describe(example, Prediction("0", tags, (0.5,) * len(tags)))
    found = answer["entities"]
    assert isinstance(found, list)
    assert [entity["text"] for entity in found] == ["Ann  Lee", "Ann"]
    assert all(text[e["start"] : e["end"]] == e["text"] for e in found)
    assert found[0]["score"] == 0.5
    given_words = form.parse({"words": ["Ann", "Lee", "sat"]}, "0")
    answer = form.describe(given_words, Prediction("0", (1, 2, 0), (1.0, 1.0, 1.0)))
    assert answer["entities"] == [
        {"type": "PER", "text": "Ann Lee", "first_word": 0, "start": 0, "end": 7, "score": 1.0}
    ]


def test_scores_of_each_type() -> None:
    form = TagForm(labels=("O", "B-LOC", "B-PER"))
    examples = [Example("0", "", words=("a", "b", "c"), gold=(1, 2, 0))]
    rows = scores_by_class(form, examples, [Prediction("0", (1, 0, 2))])
    assert rows == [
        {"class": "LOC", "precision": 1.0, "recall": 1.0, "f1": 1.0, "count": 1},
        {"class": "PER", "precision": 0.0, "recall": 0.0, "f1": 0.0, "count": 1},
    ]
