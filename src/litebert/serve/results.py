"""What predictions look like: plain frozen records that JSON and OpenAPI understand."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Candidate:
    """One word that may stand at a mask."""

    token: str
    """The piece as text, without the word-start marker."""
    token_id: int
    """Its id in the vocabulary."""
    score: float
    """Its probability at this position."""


@dataclass(frozen=True)
class FilledText:
    """The candidates for every ``[MASK]`` of one text.

    Example:
        >>> filled.masks[0][0].token
        'capital'
    """

    text: str
    """The text with the best candidate at each mask."""
    masks: list[list[Candidate]]
    """For each mask, in the order of the text, the best candidates first."""


@dataclass(frozen=True)
class SentenceOrder:
    """How sure the model is that the first sentence comes first."""

    in_order: float
    """Probability that the sentences stand in their original order."""
    swapped: float
    """Probability that they were swapped; the two add up to one."""


@dataclass(frozen=True)
class Label:
    """One class with its probability."""

    label: str
    """The class name from the model's config."""
    score: float
    """Its probability."""


@dataclass(frozen=True)
class Classification:
    """The classes of one text, the most probable first."""

    label: str
    """The predicted class."""
    score: float
    """Its probability."""
    labels: list[Label]
    """All classes, the most probable first."""


@dataclass(frozen=True)
class Regression:
    """A number predicted for one text."""

    value: float
    """On the scale of the training labels."""


@dataclass(frozen=True)
class Choice:
    """Which of several options the model takes."""

    choice: int
    """Index of the best option, from 0."""
    scores: list[float]
    """Probability of each option, in the order given."""


@dataclass(frozen=True)
class Answer:
    """A span of the passage, or no answer."""

    text: str
    """The answer as it stands in the passage; empty for no answer."""
    start: int
    """First character in the passage; 0 for no answer."""
    end: int
    """One past the last character; 0 for no answer."""
    score: float
    """Probability among the candidates (no answer included)."""


@dataclass(frozen=True)
class Answers:
    """The best answers to one question."""

    answer: Answer
    """The prediction; its text is empty if the passage holds no answer."""
    alternatives: list[Answer]
    """The best candidates, best first."""
    no_answer: float
    """Probability that the passage holds no answer."""


@dataclass(frozen=True)
class Entity:
    """A tagged stretch of text."""

    label: str
    """The tag, without a ``B-`` or ``I-`` prefix."""
    text: str
    """The stretch as it stands in the text."""
    start: int
    """First character."""
    end: int
    """One past the last character."""
    score: float
    """Mean probability of the tag over its words."""


@dataclass(frozen=True)
class LayerPath:
    """How far each block moves the tokens of one text: Figure 1 of the paper for one input."""

    distance: list[float]
    """Mean over tokens of the L2 distance between input and output of each block."""
    angle_degrees: list[float]
    """Mean over tokens of the angle between input and output of each block."""
