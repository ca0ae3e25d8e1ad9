"""Looking inside (the paper's Figure 1): how far and by which angle a block moves embeddings.

For every block, the L2 distance between its input and its output embedding and the angle between
the two, over all real tokens (padding is left out, ``[CLS]`` and ``[SEP]`` are not).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from litebert.common.batches import batches_by_tokens
from litebert.common.errors import ConfigError, DataError
from litebert.common.files import atomic_path, open_binary
from litebert.common.progress import progress

if TYPE_CHECKING:
    from torch import Tensor

    from litebert.model.encoder import Encoder
    from litebert.text.tokenizer import Tokenizer

BATCH_TOKENS = 4096
PLOT_FORMATS = (".png", ".svg", ".pdf")


@dataclass(frozen=True)
class Spread:
    """How a quantity is distributed over the tokens.

    Attributes:
        mean: the mean.
        std: the standard deviation.
        p10: the value that a tenth of the tokens stay below.
        p90: the value that nine tenths stay below.
    """

    mean: float
    std: float
    p10: float
    p90: float

    @classmethod
    def of(cls, values: npt.NDArray[np.float64]) -> Spread:
        """Summarise the values of all tokens."""
        p10, p90 = np.quantile(values, (0.1, 0.9))
        return cls(float(values.mean()), float(values.std()), float(p10), float(p90))


@dataclass(frozen=True)
class LayerMovement:
    """What one block does to the embeddings.

    Attributes:
        layer: number of the block, from 1 in order of execution.
        distance: L2 distance between input and output.
        angle_degrees: angle between input and output.
    """

    layer: int
    distance: Spread
    angle_degrees: Spread


@dataclass(frozen=True)
class LayerAnalysis:
    """The movement of every block of one model.

    Attributes:
        model: the folder or hub name.
        num_tokens: tokens that were averaged over.
        layers: one entry per block.

    Example:
        >>> analysis = analyze_layers("runs/base/model", Path("text.txt"))
        >>> [round(layer.angle_degrees.mean) for layer in analysis.layers]
    """

    model: str
    num_tokens: int
    layers: tuple[LayerMovement, ...]


def analyze_layers(
    model: Path | str, text: Path, *, max_tokens: int = 20_000, length: int | None = None
) -> LayerAnalysis:
    """Measure how each block of a model moves the embeddings of a text.

    Args:
        model: a model folder with a tokenizer, or a hub name.
        text: a text file; blank lines part documents, which are cut into windows.
        max_tokens: stop after this many tokens.
        length: longest window; by default what the model allows.
    """
    from litebert.interop.folder import resolve
    from litebert.interop.hf import load_model
    from litebert.model.encoder import Encoder
    from litebert.text.tokenizer import Tokenizer

    encoder = load_model(model, head="encoder")
    assert isinstance(encoder, Encoder)
    longest = encoder.config.max_positions
    window = longest if length is None else length
    if not 3 <= window <= longest:
        raise ConfigError(f"length {window} does not fit: choose 3 to {longest} for this model")
    if max_tokens < 3:
        raise ConfigError(f"max_tokens {max_tokens} is too small: choose at least 3")
    tokenizer = Tokenizer.load(resolve(model))
    sequences = list(_windows(tokenizer, text, window, max_tokens))
    if not sequences:
        raise DataError(f"{text} has no text to look at")
    return LayerAnalysis(str(model), sum(map(len, sequences)), movements(encoder, sequences))


def movements(encoder: Encoder, sequences: Sequence[Sequence[int]]) -> tuple[LayerMovement, ...]:
    """Measure every block over sequences of token ids (each with its special tokens)."""
    import torch

    distances: list[Tensor] = []  # per batch [blocks, tokens]
    angles: list[Tensor] = []
    batches = batches_by_tokens([len(sequence) for sequence in sequences], BATCH_TOKENS)
    num_tokens = sum(map(len, sequences))
    with torch.inference_mode(), progress("layers", num_tokens, "token") as bar:
        for batch in batches:
            rows = [torch.tensor(sequences[index]) for index in batch]
            ids_BS = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
            lengths_B = torch.tensor([len(row) for row in rows])
            real_BS = torch.arange(ids_BS.shape[1]) < lengths_B[:, None]
            states = encoder(ids_BS, real_BS, return_hidden_states=True).hidden_states
            real = torch.stack([state_BSH[real_BS] for state_BSH in states]).double()
            distances.append(torch.linalg.vector_norm(real[1:] - real[:-1], dim=-1))
            angles.append(angle_degrees(real[:-1], real[1:]))
            bar.advance(int(lengths_B.sum()))
    pairs = zip(torch.cat(distances, dim=1).numpy(), torch.cat(angles, dim=1).numpy(), strict=True)
    return tuple(
        LayerMovement(number, Spread.of(distance), Spread.of(angle))
        for number, (distance, angle) in enumerate(pairs, start=1)
    )


def angle_degrees(a: Tensor, b: Tensor) -> Tensor:
    """The angle between vectors [..., H], exact near 0 and 180 where the arc cosine is not."""
    import torch

    a = a / torch.linalg.vector_norm(a, dim=-1, keepdim=True)
    b = b / torch.linalg.vector_norm(b, dim=-1, keepdim=True)
    opposite = torch.linalg.vector_norm(a - b, dim=-1)
    adjacent = torch.linalg.vector_norm(a + b, dim=-1)
    return torch.rad2deg(2 * torch.atan2(opposite, adjacent))


def _windows(tokenizer: Tokenizer, text: Path, length: int, max_tokens: int) -> Iterator[list[int]]:
    """Cut each document into ``[CLS] ... [SEP]`` of at most ``length`` tokens."""
    room = length - 2
    used = 0
    for document in _documents(text):
        pieces = tokenizer.encode(document)
        for start in range(0, len(pieces), room):
            window = [tokenizer.cls_id, *pieces[start : start + room], tokenizer.sep_id]
            if used + len(window) > max_tokens:
                kept = max_tokens - used
                if kept >= 3:
                    yield [*window[: kept - 1], tokenizer.sep_id]
                return
            used += len(window)
            yield window


def _documents(text: Path) -> Iterator[str]:
    """Yield the documents of a text file: lines up to a blank one, joined by spaces."""
    lines: list[str] = []
    with open_binary(text) as stream:
        for number, raw in enumerate(stream, start=1):
            try:
                line = raw.decode("utf-8").strip()
            except UnicodeDecodeError:
                raise DataError(f"{text}, line {number} is not UTF-8; convert the file") from None
            if line:
                lines.append(line)
            elif lines:
                yield " ".join(lines)
                lines = []
    if lines:
        yield " ".join(lines)


def short_names(models: Sequence[str]) -> list[str]:
    """Return the end of each path that tells the models apart; a run's ``model`` is not it.

    Example:
        >>> short_names(["runs/base/model", "runs/large/model"])
        ['base', 'large']
    """
    parts = [Path(model).parts for model in models]
    parts = [path[:-1] if len(path) > 1 and path[-1] == "model" else path for path in parts]
    for depth in range(1, max(map(len, parts)) + 1):
        names = ["/".join(path[-depth:]) for path in parts]
        if len(set(names)) == len(names):
            return names
    return list(models)


def plot_layers(analyses: Sequence[LayerAnalysis], path: Path) -> None:
    """Draw Figure 1: distance and angle per block, one line per model.

    The band around a line holds the middle 80 % of the tokens.

    Args:
        analyses: the models.
        path: a file that ends in .png, .svg or .pdf.
    """
    check_plot_path(path)
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(10, 4.2), layout="constrained")
    panels = figure.subplots(1, 2)
    titles = ("L2 distance", "Angle (degrees)")
    # Okabe and Ito's colours, told apart by everyone, with a marker of its own for each.
    styles = (("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "^"), ("#CC79A7", "D"))
    names = short_names([analysis.model for analysis in analyses])
    for index, (name, analysis) in enumerate(zip(names, analyses, strict=True)):
        colour, marker = styles[index % len(styles)]
        numbers = [layer.layer for layer in analysis.layers]
        for panel, quantity in zip(panels, ("distance", "angle_degrees"), strict=True):
            spreads: list[Spread] = [getattr(layer, quantity) for layer in analysis.layers]
            low, high = [s.p10 for s in spreads], [s.p90 for s in spreads]
            panel.fill_between(numbers, low, high, color=colour, alpha=0.15, linewidth=0)
            panel.plot(
                numbers,
                [s.mean for s in spreads],
                color=colour,
                marker=marker,
                markersize=4,
                label=name,
            )
    for panel, title in zip(panels, titles, strict=True):
        panel.set_title(f"{title} between a layer's input and output", fontsize=11, loc="left")
        panel.set_xlabel("layer")
        panel.set_ylim(bottom=0)
        panel.set_xlim(0.5, max(len(analysis.layers) for analysis in analyses) + 0.5)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.grid(axis="y", color="#dddddd", linewidth=0.7)
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
    lines, labels = panels[0].get_legend_handles_labels()
    figure.legend(
        lines,
        labels,
        loc="outside lower center",
        ncols=len(labels),
        frameon=False,
        title="line: mean over tokens, band: 10 to 90 % of them",
        title_fontsize="small",
    )
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=150, format=path.suffix[1:])


def check_plot_path(path: Path) -> None:
    """Refuse a file that cannot be drawn to, before any long work."""
    if path.suffix not in PLOT_FORMATS:
        raise ConfigError(f"cannot draw to {path}: its name should end in .png, .svg or .pdf")
