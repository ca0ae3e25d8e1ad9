"""A picture of an inspection: lengths, masked runs, replacements and labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from litebert.common.errors import InputError
from litebert.common.files import atomic_path
from litebert.data.batches.masks import ngram_probabilities
from litebert.data.batches.statistics import OPEN, Histogram, Inspection

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BAR = "#4878a8"
SECOND = "#d08c3c"
MOST_WORDS = 8
SUFFIXES = (".png", ".svg", ".pdf")


def bin_names(histogram: Histogram) -> list[str]:
    """Short names of the bins: ``5-9``, ``500+``.

    Example:
        >>> bin_names(Histogram((1, 5, OPEN), (3, 4)))
        ['1-4', '5+']
    """
    names = []
    for first, after in zip(histogram.edges[:-1], histogram.edges[1:], strict=True):
        last = f"-{after - 1}" if after - 1 > first else ""
        names.append(f"{first}+" if after >= OPEN else f"{first}{last}")
    return names


def check_plot_path(path: Path) -> None:
    """Refuse a file that cannot be drawn, before the work is done."""
    if path.suffix not in SUFFIXES:
        raise InputError(f"cannot draw into {path}; name a file that ends in {', '.join(SUFFIXES)}")
    if not path.absolute().parent.is_dir():
        raise InputError(f"the folder of {path} does not exist; make it first")


def plot_inspection(inspection: Inspection, path: Path) -> None:
    """Draw an inspection into an image file; the suffix says which kind."""
    check_plot_path(path)
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 3, figsize=(15, 8), constrained_layout=True)
    corpus, examples = inspection.corpus, inspection.examples
    _histogram(axes[0, 0], corpus.sentence_tokens, "Sentences by tokens")
    _histogram(axes[0, 1], corpus.document_tokens, "Documents by tokens")
    _histogram(axes[0, 2], examples.lengths, "Examples by length")
    _runs(axes[1, 0], inspection)
    _shares(axes[1, 1], "At predicted places", examples.replacement_shares)
    labels = {("in order", "negative")[k]: v for k, v in examples.label_shares.items()}
    _shares(axes[1, 2], "Sentence labels", labels or {"no sentence task": 1.0})
    figure.suptitle(
        f"{inspection.folder} ({inspection.split}): {corpus.documents:,} documents, "
        f"{corpus.tokens:,} tokens; {examples.examples:,} examples drawn, "
        f"{examples.masked_share:.1%} predicted, {examples.padding_share:.2%} padding"
    )
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format=path.suffix.lstrip("."), dpi=110)
    plt.close(figure)


def _histogram(axes: Axes, histogram: Histogram, title: str) -> None:
    names = bin_names(histogram)
    axes.bar(names, histogram.counts, color=BAR)
    axes.set_title(title)
    axes.tick_params("x", rotation=60, labelsize=8)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")


def _runs(axes: Axes, inspection: Inspection) -> None:
    """Runs found beside the law that spans are drawn from; neighbouring spans make longer runs."""
    shares = inspection.examples.run_words
    words = list(range(min(shares, default=1), min(MOST_WORDS, max(shares, default=1)) + 1))
    law = ngram_probabilities(inspection.config.mask.max_ngram).tolist()
    axes.bar([w - 0.2 for w in words], [shares.get(w, 0) for w in words], 0.4, color=BAR)
    axes.bar([n + 1.2 for n in range(len(law))], law, 0.4, color=SECOND)
    axes.legend(["runs found", "drawn: p(n) ~ 1/n"])
    axes.set_xticks(words)
    axes.set_title("Masked runs by words")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")


def _shares(axes: Axes, title: str, shares: dict[str, float]) -> None:
    bars = axes.bar(list(shares), list(shares.values()), color=BAR, width=0.6)
    axes.bar_label(bars, [f"{share:.1%}" for share in shares.values()])
    axes.set_ylim(0, 1.1 * max(shares.values()))
    axes.set_title(title)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
