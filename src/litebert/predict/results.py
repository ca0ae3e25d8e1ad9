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
class LayerPath:
    """How far each block moves the tokens of one text: Figure 1 of the paper for one input."""

    distance: list[float]
    """Mean over tokens of the L2 distance between input and output of each block."""
    angle_degrees: list[float]
    """Mean over tokens of the angle between input and output of each block."""
