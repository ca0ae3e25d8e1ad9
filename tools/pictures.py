"""Draw the documentation's pictures: the way of the data, the curves of a demo and of a run.

python tools/pictures.py pipeline
python tools/pictures.py demo demo/
python tools/pictures.py run build/small_cpu/sop-0 --name small_cpu
"""

from __future__ import annotations

import argparse
import html
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from litebert.common.files import read_json
from litebert.common.runs import RunFolder
from litebert.report.log import number, points

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HERE = Path(__file__).resolve().parent.parent / "docs" / "images"

# (column, row, what it is, the file or folder, colour)
BOXES = {
    "text": (0, 0, "raw text", "*.txt *.jsonl *.parquet", "#f1f3f5"),
    "tokenizer": (1, 1, "vocabulary", "tokenizer/", "#e7f5ff"),
    "shards": (1, 0, "token shards", "shards/", "#e7f5ff"),
    "model": (2, 0, "pretrained model", "run/model/", "#fff4e6"),
    "task": (3, 0, "task model", "run/model/, task.json", "#fff4e6"),
    "score": (4, 0, "scores", "result.json, report.html", "#f1f3f5"),
    "onnx": (3, 1, "ONNX, int8", "exported/", "#ebfbee"),
    "server": (4, 1, "answers", "Python, shell, HTTP", "#ebfbee"),
}
ARROWS = (
    ("text", "shards", "prepare"),
    ("text", "tokenizer", "tokenizer train"),
    ("tokenizer", "shards", ""),
    ("shards", "model", "pretrain"),
    ("model", "task", "finetune"),
    ("task", "score", "evaluate"),
    ("model", "onnx", "export onnx"),
    ("task", "onnx", ""),
    ("onnx", "server", "serve"),
)
WIDTH, HEIGHT, GAP_X, GAP_Y = 172, 62, 74, 72
BLUE, ORANGE, GREY = "#1971c2", "#e8590c", "#868e96"


def place(name: str) -> tuple[float, float]:
    """Return the left upper corner of a box."""
    column, row, *_ = BOXES[name]
    return 16 + column * (WIDTH + GAP_X), 34 + row * (HEIGHT + GAP_Y)


def arrow(source: str, target: str, label: str) -> str:
    """Return an arrow from side to side, or from one row to the other."""
    (x0, y0), (x1, y1) = place(source), place(target)
    if y0 == y1:
        start, end = (x0 + WIDTH, y0 + HEIGHT / 2), (x1, y1 + HEIGHT / 2)
        text = ((start[0] + end[0]) / 2, start[1] - 8, "middle")
    elif x0 == x1:
        down = y1 > y0
        start = (x0 + WIDTH / 2, y0 + (HEIGHT if down else 0))
        end = (x1 + WIDTH / 2, y1 + (0 if down else HEIGHT))
        text = (start[0] + 8, (start[1] + end[1]) / 2, "start")
    else:
        start, end = (x0 + WIDTH / 2, y0 + HEIGHT), (x1, y1 + HEIGHT / 2)
        text = (start[0] + 8, end[1] - 8, "start")
    bend = f"L{start[0]:.0f} {end[1]:.0f} " if x0 != x1 and y0 != y1 else ""
    return (
        f'<path d="M{start[0]:.0f} {start[1]:.0f} {bend}L{end[0]:.0f} {end[1]:.0f}" fill="none" '
        'stroke="#868e96" stroke-width="1.6" marker-end="url(#head)"/>'
        f'<text x="{text[0]:.0f}" y="{text[1]:.0f}" text-anchor="{text[2]}" class="command">'
        f"{html.escape(label)}</text>"
    )


def box(name: str) -> str:
    """Return a box with what it is and where it lies on disk."""
    x, y = place(name)
    _, _, title, path, colour = BOXES[name]
    middle = x + WIDTH / 2
    return (
        f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="9" fill="{colour}" '
        'stroke="#adb5bd"/>'
        f'<text x="{middle}" y="{y + 27}" text-anchor="middle" class="title">{title}</text>'
        f'<text x="{middle}" y="{y + 47}" text-anchor="middle" class="path">{path}</text>'
    )


def draw_pipeline() -> Path:
    """Write ``pipeline.svg``."""
    width, height = 32 + 5 * WIDTH + 4 * GAP_X, 68 + 2 * HEIGHT + GAP_Y
    shapes = [arrow(*ends) for ends in ARROWS] + [box(name) for name in BOXES]
    path = HERE / "pipeline.svg"
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        'aria-label="raw text to vocabulary and shards, to a pretrained model, to a task model and '
        'its scores, to ONNX and answers">'
        "<style>text{font-family:system-ui,sans-serif;fill:#212529}.title{font-size:15px;"
        "font-weight:600}.path{font-size:12px;fill:#495057}.command{font-size:12px;"
        "fill:#1864ab}</style>"
        '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0L10 5L0 10z" fill="#868e96"/></marker></defs>'
        f'<rect width="{width}" height="{height}" rx="12" fill="#ffffff"/>' + "".join(shapes) + "</svg>\n",
        encoding="utf-8",
    )
    return path


def draw_demo(demo: Path) -> Path:
    """Write ``demo.png``: the dev loss of pretraining and the dev accuracy of fine-tuning."""
    with _two_plots("demo") as (path, left, right):
        _plot(left, demo / "pretrain", "dev_masked_loss", BLUE, "litebert, albert-tiny")
        _plot(left, demo / "pretrain", "dev_unigram_loss", GREY, "word frequencies alone", "--")
        left.set(title="Pretraining: dev loss at [MASK] (nats)", xlabel="steps")
        _plot(right, demo / "finetune", "dev_accuracy", BLUE, "from the pretrained model")
        _plot(right, demo / "finetune-untrained", "dev_accuracy", ORANGE, "from random weights")
        baseline = number(read_json(demo / "scores.json"), "baseline", "accuracy")
        right.axhline(baseline, ls="--", color=GREY, label="always the same part")
        title = "Fine-tuning: dev accuracy, 6 parts of the library"
        right.set(title=title, xlabel="steps", ylim=(0, 1))
    return path


def draw_run(run: Path, name: str) -> Path:
    """Write ``NAME.png``: training and dev loss, and dev accuracies of a pretraining run."""
    with _two_plots(name) as (path, left, right):
        _plot(left, run, "mlm_loss", "#a5d8ff", "training batches", width=0.6)
        _plot(left, run, "dev_mlm_loss", BLUE, "dev", "o-")
        _plot(left, run, "dev_masked_loss", ORANGE, "dev, at [MASK]", "o-")
        _plot(left, run, "dev_unigram_loss", GREY, "word frequencies alone", "--")
        left.set(title="masked-word loss (nats)", xlabel="steps", ylim=(4.4, 7.6))
        _plot(right, run, "dev_mlm_accuracy", BLUE, "masked words", "o-")
        _plot(right, run, "dev_sop_accuracy", "#2f9e44", "sentence order", "o-")
        _plot(right, run, "dev_nsp_accuracy", "#9c36b5", "next sentence", "o-")
        right.set(title="dev accuracy", xlabel="steps", ylim=(0, 0.7))
        right.yaxis.set_major_formatter("{x:.0%}")
    return path


@contextmanager
def _two_plots(name: str) -> Iterator[tuple[Path, Axes, Axes]]:
    """Yield the picture's path and two axes side by side; write the picture at the end."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.4), dpi=110, layout="constrained")
    path = HERE / f"{name}.png"
    yield path, left, right
    for axes in (left, right):
        axes.legend(frameon=False, fontsize=9)
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)


def _plot(axes: Axes, run: Path, key: str, colour: str, label: str, style: str = "-", width: float = 1.5) -> None:
    if line := points(RunFolder.open(run).metrics(), key):
        xs, ys = zip(*line, strict=True)
        axes.plot(xs, ys, style, color=colour, label=label, linewidth=width, markersize=3)


def main() -> None:
    """Command line."""
    title, _, examples = __doc__.partition("\n\n")
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=title, epilog=examples, formatter_class=raw)
    parser.add_argument("picture", choices=("pipeline", "demo", "run"))
    parser.add_argument("folder", type=Path, nargs="?", default=Path("demo"), help="demo or run")
    parser.add_argument("--name", default="run", help="of the picture of a run")
    options = parser.parse_args()
    if options.picture == "pipeline":
        print(draw_pipeline())
    elif options.picture == "demo":
        print(draw_demo(options.folder))
    else:
        print(draw_run(options.folder, options.name))


if __name__ == "__main__":
    main()
