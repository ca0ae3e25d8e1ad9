"""Looking inside (the paper's Figure 1): how far and by what angle a block moves embeddings.

For every block, the L2 distance between its input and its output embedding and the angle between
the two, over all real tokens (padding is left out, ``[CLS]`` and ``[SEP]`` are not).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import numpy as np
import numpy.typing as npt

from litebert.common.errors import ConfigError, DataError
from litebert.common.files import atomic_path, check_plot_path, open_binary
from litebert.common.progress import progress
from litebert.data.corpus.layouts import documents_between_blank_lines
from litebert.interop.folder import resolve
from litebert.predict.backend import Backend, open_backend, run_features
from litebert.predict.batches import DEFAULT_MAX_TOKENS
from litebert.tasks.base import Feature, FloatArray, Row
from litebert.text.tokenizer import Tokenizer

Float64Array = npt.NDArray[np.float64]

_PAD_ID = 0  # padding is left out, so any piece will do
_SMALLEST_NORM = 1e-12


@dataclass(frozen=True)
class Spread:
    """How a quantity is distributed over the tokens: mean, deviation, first and last tenth."""

    mean: float
    std: float
    p10: float
    p90: float

    @classmethod
    def of(cls, values: Float64Array) -> Spread:
        """Summarise the values of all tokens."""
        p10, p90 = np.quantile(values, (0.1, 0.9))
        return cls(float(values.mean()), float(values.std()), float(p10), float(p90))


@dataclass(frozen=True)
class LayerMovement:
    """L2 distance and angle between what goes into a block and what comes out."""

    layer: int  # number of the block, from 1 in order of execution
    distance: Spread
    angle_degrees: Spread


@dataclass(frozen=True)
class LayerAnalysis:
    """The movement of every block of one model (a folder or hub name) over a number of tokens."""

    model: str
    num_tokens: int
    layers: tuple[LayerMovement, ...]


def analyze_layers(
    model: Path | str, text: Path, *, max_tokens: int = 20_000, length: int | None = None
) -> LayerAnalysis:
    """Measure how each block of a model moves the embeddings of a text.

    Blank lines separate documents, which are cut into windows of ``length`` tokens; by default the model's longest.
    """
    folder = resolve(model)
    backend = open_backend(folder)
    longest = backend.info.max_length
    window = longest if length is None else length
    if not 3 <= window <= longest:
        raise ConfigError(f"length {window} does not fit: choose 3 to {longest} for this model")
    if max_tokens < 3:
        raise ConfigError(f"max_tokens {max_tokens} is too small: choose at least 3")
    sequences = list(_windows(Tokenizer.load(folder), text, window, max_tokens))
    if not sequences:
        raise DataError(f"{text} has no text to look at")
    return LayerAnalysis(str(model), sum(map(len, sequences)), movements(backend, sequences))


def movements(backend: Backend, sequences: Sequence[Sequence[int]]) -> tuple[LayerMovement, ...]:
    """Measure every block over sequences of token ids (each with its special tokens)."""
    features = [Feature(0, (Row(np.array(sequence, np.int32), len(sequence)),)) for sequence in sequences]
    moved = []  # of each sequence: distances and angles [tokens, blocks]
    with progress("layers", sum(map(len, sequences)), "token") as bar:
        for _, said in run_features(backend, features, ("hidden_states",), _PAD_ID, DEFAULT_MAX_TOKENS):
            moved.append(token_movements(said["hidden_states"]))
            bar.advance(len(said["hidden_states"]))
    distances, angles = (np.concatenate(found).T for found in zip(*moved, strict=True))
    return tuple(
        LayerMovement(number, Spread.of(distance), Spread.of(angle))
        for number, (distance, angle) in enumerate(zip(distances, angles, strict=True), start=1)
    )


def token_movements(states_SLH: FloatArray) -> tuple[Float64Array, Float64Array]:
    """Distance and angle [S, blocks] between input and output of each block; states: embeddings, then outputs."""
    states = states_SLH.astype(np.float64)
    before, after = states[:, :-1], states[:, 1:]
    return np.linalg.norm(after - before, axis=-1), angle_degrees(before, after)


def angle_degrees(a: Float64Array, b: Float64Array) -> Float64Array:
    """The angle between vectors [..., H], exact near 0 and 180 where the arc cosine is not."""
    a, b = (v / np.maximum(np.linalg.norm(v, axis=-1, keepdims=True), _SMALLEST_NORM) for v in (a, b))
    opposite, adjacent = np.linalg.norm(a - b, axis=-1), np.linalg.norm(a + b, axis=-1)
    degrees: Float64Array = np.degrees(2 * np.arctan2(opposite, adjacent))
    return degrees


def _windows(tokenizer: Tokenizer, text: Path, length: int, max_tokens: int) -> Iterator[list[int]]:
    """Cut each document into ``[CLS] ... [SEP]`` of at most ``length`` tokens."""
    left = max_tokens
    for document in documents_between_blank_lines(_lines(text)):
        pieces = tokenizer.encode(" ".join(document))
        for start in range(0, len(pieces), length - 2):
            if left < 3:
                return
            body = pieces[start : start + min(length, left) - 2]
            left -= len(body) + 2
            yield [tokenizer.cls_id, *body, tokenizer.sep_id]


def _lines(text: Path) -> Iterator[str]:
    with open_binary(text) as stream:
        for number, line in enumerate(stream, start=1):
            try:
                yield line.decode("utf-8").strip()
            except UnicodeDecodeError:
                raise DataError(f"{text}, line {number} is not UTF-8; convert the file") from None


def short_names(models: Sequence[str]) -> list[str]:
    """Return the end of each path that tells the models apart; a run's ``model`` is not it.

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
    """Draw Figure 1: distance and angle per block, one line per model, in a band of the middle 80 % of the tokens."""
    check_plot_path(path)
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(10, 4.2), layout="constrained")
    panels = figure.subplots(1, 2)
    quantities = {"distance": "L2 distance", "angle_degrees": "Angle (degrees)"}
    # Okabe and Ito's colours, told apart by everyone, with a marker of its own for each.
    styles = (("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "^"), ("#CC79A7", "D"))
    names = short_names([analysis.model for analysis in analyses])
    for panel, (quantity, title) in zip(panels, quantities.items(), strict=True):
        for name, analysis, (colour, marker) in zip(names, analyses, cycle(styles), strict=False):
            numbers = [layer.layer for layer in analysis.layers]
            spreads: list[Spread] = [getattr(layer, quantity) for layer in analysis.layers]
            low, high = [s.p10 for s in spreads], [s.p90 for s in spreads]
            panel.fill_between(numbers, low, high, color=colour, alpha=0.15, linewidth=0)
            panel.plot(numbers, [s.mean for s in spreads], color=colour, marker=marker, markersize=4, label=name)
        panel.set_title(f"{title} between a layer's input and output", fontsize=11, loc="left")
        most = max(len(analysis.layers) for analysis in analyses)
        panel.set(xlabel="layer", xlim=(0.5, most + 0.5), ylim=(0, None))
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.grid(axis="y", color="#dddddd", linewidth=0.7)
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
    lines, labels = panels[0].get_legend_handles_labels()
    note = "line: mean over tokens, band: 10 to 90 % of them"
    below = figure.legend(lines, labels, loc="outside lower center", ncols=len(labels), title=note, frameon=False)
    below.get_title().set_fontsize("small")
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=150, format=path.suffix[1:])
