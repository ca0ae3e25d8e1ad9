"""Weights that do not begin at random: heads on neighbours, word frequencies, copies of layers.

A freshly drawn attention looks everywhere alike, so a masked place sees the mean of all words; what
a word's neighbours say has to find its way through that mean first, and until then a model learns
nothing but word frequencies: the plateau on which small trainings get stuck. Here each head looks
at one neighbour from the first step on. It is an initialisation and nothing else: the same
architecture, the same folders, every weight free to move.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from litebert.model.encoder import Encoder
from litebert.model.heads import PretrainingModel
from litebert.model.layers import Attention
from litebert.model.sharing import SharingPlan

SHORTEST_WAVE_TOKENS = 2.86
LONGEST_WAVE_TOKENS = 512.0
POSITION_TO_WORD = 2.5
"""Amplitude of the positions' waves in standard deviations of the words: positions prevail."""
PEAK_SCORE = 8.0
"""Attention score of the neighbour by position alone: a weight e^8 times that of the others."""
USED_WAVES = 0.4
"""Share of the waves, shortest first, that heads compare: long ones tell neighbours little."""
_SETS = ("attention", "feed_forward", "norms")
_IN_A_SET = re.compile(rf"^encoder\.({'|'.join(_SETS)})\.(\d+)\.")


def set_word_frequencies(model: PretrainingModel, counts: np.ndarray) -> None:
    """Start the output bias at the log frequency of each piece, from int64 counts [V or fewer]."""
    smoothed = torch.ones(len(model.mlm.bias), dtype=torch.float64)
    smoothed[: len(counts)] += torch.from_numpy(counts.astype(np.float64))
    with torch.no_grad():
        model.mlm.bias.copy_((smoothed / smoothed.sum()).log())


def look_at_neighbours(encoder: Encoder, generator: torch.Generator, most_heads: int = 8) -> None:
    """Give each head a neighbour to look at: the piece before, the one after, the second before...

    Positions become waves, of which a shift by n tokens is a rotation R_n. With queries G R_n x and
    keys G x, where G picks some waves, the score of tokens i and j is largest for j = i + n.
    Projection, values and outputs get the variance that keeps what they read at its size, so that
    a neighbour's word arrives clearly. At most ``most_heads`` are set; the others stay as drawn,
    look everywhere alike, and are what [CLS] can gather a text with.
    """
    config, embeddings = encoder.config, encoder.embeddings
    width = config.position_size
    waves = wave_numbers(width // 2)
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


def new_sets(plan: SharingPlan, before: int, after: int) -> Iterator[tuple[str, int, int]]:
    """The parameter sets that begin to run when ``before`` layers become ``after``.

    Yields (kind, set, set it begins as). The new layers repeat the old ones from the first on, as
    a block that all layers share does; a set that has run already stays as it is.

    >>> from litebert.model.sharing import plan
    >>> list(new_sets(plan("ffn", 3), 2, 3))
    [('attention', 2, 0), ('norms', 2, 0)]
    """
    inner = plan.inner_group_num
    for kind in _SETS:
        used: tuple[int, ...] = getattr(plan, kind)
        known = set(used[: before * inner])
        for block in range(before * inner, after * inner):
            if used[block] not in known:
                known.add(used[block])
                yield kind, used[block], used[block % (before * inner)]


@torch.no_grad()
def deepen(
    model: nn.Module,
    optimizers: Sequence[Optimizer],
    sets: Iterator[tuple[str, int, int]],
    average: Mapping[str, Tensor],
) -> None:
    """Let sets of a model begin as copies of others: weights, their average, optimizer state.

    Copies of sharded tensors are shards of the copies, so processes need not talk.
    """
    parameters = dict(model.named_parameters())
    owners = {p: o for o in optimizers for group in o.param_groups for p in group["params"]}
    for kind, target, source in sets:
        prefix = f"encoder.{kind}.{target}."
        for name in [name for name in parameters if name.startswith(prefix)]:
            other = f"encoder.{kind}.{source}.{name.removeprefix(prefix)}"
            copy, original = parameters[name], parameters[other]
            copy.copy_(original)
            if name in average:
                average[name].copy_(average[other])
            if copy in owners:
                states = owners[copy].state
                for key, value in states.get(original, {}).items():
                    states[copy][key] = value.clone()


def spread(shared: nn.Module, model: nn.Module, inner_group_num: int) -> None:
    """Give every layer the one layer of a shared model, as the official ``init_from_group0``."""
    found = shared.state_dict()

    def source(name: str) -> str:
        return _IN_A_SET.sub(
            lambda match: f"encoder.{match[1]}.{int(match[2]) % inner_group_num}.", name
        )

    model.load_state_dict({name: found[source(name)] for name in model.state_dict()})


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


def wave_numbers(count: int) -> Tensor:
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
