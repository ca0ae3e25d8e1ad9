"""Initial weights from which small models learn at once: heads on neighbours, known frequencies.

A freshly drawn attention looks everywhere alike, so a masked place sees the mean of all words; what
a word's neighbours say has to find its way through that mean first, and until then a model learns
nothing but word frequencies: the plateau on which small trainings get stuck. Here each head looks
at one neighbour from the first step on. It is an initialisation and nothing else: the same
architecture, the same folders, every weight free to move.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from litebert.model.encoder import Encoder
from litebert.model.heads import PretrainingModel
from litebert.model.layers import Attention

SHORTEST_WAVE_TOKENS = 2.86
LONGEST_WAVE_TOKENS = 512.0
POSITION_TO_WORD = 2.5
"""Amplitude of the positions' waves in standard deviations of the words: positions prevail."""
PEAK_SCORE = 8.0
"""Attention score of the neighbour, were there no words in the way: e^8 times that of strangers."""
USED_WAVES = 0.4
"""Share of the waves, shortest first, that heads compare: long ones tell neighbours little."""


def set_word_frequencies(model: PretrainingModel, counts: np.ndarray) -> None:
    """Start the output bias at the log frequency of each piece: word frequencies need no learning.

    ``counts``, int64 [V or fewer], are occurrences in the training text.
    """
    smoothed = torch.ones(len(model.mlm.bias), dtype=torch.float64)
    smoothed[: len(counts)] += torch.from_numpy(counts.astype(np.float64))
    with torch.no_grad():
        model.mlm.bias.copy_((smoothed / smoothed.sum()).log())


def look_at_neighbours(encoder: Encoder, generator: torch.Generator, most_heads: int = 8) -> None:
    """Give each head a neighbour to look at: the piece before, the one after, the second before...

    Positions become waves, of which a shift by n tokens is a rotation R_n. With queries G R_n x and
    keys G x, where G picks some waves, the score of tokens i and j is largest for j = i + n.
    Projection, values and outputs get the variance that keeps what they read at its size, so that
    a neighbour's word arrives audibly. At most ``most_heads`` are set; the others stay as drawn,
    look everywhere alike, and are what [CLS] can gather a text with.
    """
    config, embeddings = encoder.config, encoder.embeddings
    width = config.position_size
    waves = _wave_numbers(width // 2)
    with torch.no_grad():
        amplitude = POSITION_TO_WORD * config.initializer_range
        embeddings.position.weight.copy_(amplitude * _positions(config.max_positions, width, waves))
        back = torch.eye(width)
        if embeddings.projection is not None:
            _draw(embeddings.projection.weight, generator)
            if config.embedding_layout == "factorized":
                back = torch.linalg.pinv(embeddings.projection.weight)
        for attention in encoder.attention:
            assert isinstance(attention, Attention)
            _set_heads(attention, config.heads, most_heads, waves, back)
            _draw(attention.value.weight, generator)
            _draw(attention.output.weight, generator)


def _set_heads(
    attention: Attention, num_heads: int, most_heads: int, waves: Tensor, back: Tensor
) -> None:
    """Write queries and keys of the heads that get a neighbour; ``back`` is [width, H]."""
    head_size = attention.query.weight.shape[0] // num_heads
    num_picked = head_size // 2
    last = (len(waves) - 1) * USED_WAVES
    picked = torch.linspace(0, last, num_picked).round().long()
    scale = math.sqrt(PEAK_SCORE / math.sqrt(head_size))
    keys = torch.zeros(head_size, 2 * len(waves))
    rows = torch.arange(num_picked)
    keys[rows, picked] = scale
    keys[rows + num_picked, picked + len(waves)] = scale
    keys = nn.functional.pad(keys, (0, back.shape[0] - keys.shape[1]))
    for head in range(min(num_heads, most_heads)):
        shift = (head // 2 + 1) * (-1 if head % 2 == 0 else 1)
        rotation = nn.functional.pad(
            _rotation(waves * shift), (0, back.shape[0] - 2 * len(waves)) * 2
        )
        part = slice(head * head_size, (head + 1) * head_size)
        attention.query.weight[part] = keys @ rotation @ back
        attention.key.weight[part] = keys @ back


def _wave_numbers(count: int) -> Tensor:
    """Radians per token, geometric from the shortest wave to the longest."""
    shortest, longest = 2 * math.pi / SHORTEST_WAVE_TOKENS, 2 * math.pi / LONGEST_WAVE_TOKENS
    return torch.exp(torch.linspace(math.log(shortest), math.log(longest), count))


def _positions(count: int, width: int, waves: Tensor) -> Tensor:
    """Sines, then cosines, [count, width]."""
    angles = torch.arange(count)[:, None] * waves
    table = torch.cat([torch.sin(angles), torch.cos(angles)], 1)
    return nn.functional.pad(table, (0, width - table.shape[1]))


def _rotation(angles: Tensor) -> Tensor:
    """The matrix that turns the sines and cosines of ``a`` into those of ``a + angles``."""
    cosine, sine = torch.diag(torch.cos(angles)), torch.diag(torch.sin(angles))
    return torch.cat([torch.cat([cosine, sine], 1), torch.cat([-sine, cosine], 1)], 0)


def _draw(weight: Tensor, generator: torch.Generator) -> None:
    """Normal with variance 1 / fan-in."""
    weight.normal_(0.0, 1.0 / math.sqrt(weight.shape[1]), generator=generator)
