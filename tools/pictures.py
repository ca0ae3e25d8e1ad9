"""Draw the documentation's pictures: the way of the data, the curves of a demo and of a run.

python tools/pictures.py pipeline
python tools/pictures.py demo demo/
python tools/pictures.py run build/small_cpu/sop-0 --name small_cpu
"""

from __future__ import annotations

import argparse
import html
import json
from pathlib import Path

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
        f'<rect width="{width}" height="{height}" rx="12" fill="#ffffff"/>'
        + "".join(shapes)
        + "</svg>\n",
        encoding="utf-8",
    )
    return path


def lines_with(run: Path, key: str) -> list[tuple[float, float]]:
    """Return (step, value) of the lines of a run's log that have a key."""
    text = (run / "metrics.jsonl").read_text(encoding="utf-8")
    records = [json.loads(line) for line in text.splitlines()]
    return [(record["step"], record[key]) for record in records if key in record]


def draw_demo(demo: Path) -> Path:
    """Write ``demo.png``: the dev loss of pretraining and the dev accuracy of fine-tuning."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.4), dpi=110, layout="constrained")
    run = demo / "pretrain"
    loss, unigram = lines_with(run, "dev_masked_loss"), lines_with(run, "dev_unigram_loss")
    left.plot(*zip(*loss, strict=True), color="#1971c2", label="litebert, albert-tiny")
    left.plot(*zip(*unigram, strict=True), "--", color="#868e96", label="word frequencies alone")
    left.set(title="Pretraining: dev loss at [MASK] (nats)", xlabel="steps")
    scores = json.loads((demo / "scores.json").read_text(encoding="utf-8"))
    for folder, colour, name in (
        ("finetune", "#1971c2", "from the pretrained model"),
        ("finetune-untrained", "#e8590c", "from random weights"),
    ):
        accuracy = lines_with(demo / folder, "dev_accuracy")
        right.plot(*zip(*accuracy, strict=True), color=colour, label=name)
    right.axhline(
        scores["baseline"]["accuracy"], ls="--", color="#868e96", label="always the same part"
    )
    right.set(
        title="Fine-tuning: dev accuracy, 6 parts of the library", xlabel="steps", ylim=(0, 1)
    )
    for axes in (left, right):
        axes.legend(frameon=False, fontsize=9)
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    path = HERE / "demo.png"
    figure.savefig(path)
    return path


def draw_run(run: Path, name: str) -> Path:
    """Write ``NAME.png``: training and dev loss, and dev accuracies of a pretraining run."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.4), dpi=110, layout="constrained")
    left.plot(*zip(*lines_with(run, "mlm_loss"), strict=True), lw=0.6, color="#a5d8ff",
              label="training batches")  # fmt: skip
    for key, style, colour, label in (
        ("dev_mlm_loss", "o-", "#1971c2", "dev"),
        ("dev_masked_loss", "o-", "#e8590c", "dev, at [MASK]"),
        ("dev_unigram_loss", "--", "#868e96", "word frequencies alone"),
    ):
        points = lines_with(run, key)
        left.plot(*zip(*points, strict=True), style, ms=3, color=colour, label=label)
    left.set(title="masked-word loss (nats)", xlabel="steps", ylim=(4.4, 7.6))
    for key, colour, label in (
        ("dev_mlm_accuracy", "#1971c2", "masked words"),
        ("dev_sop_accuracy", "#2f9e44", "sentence order"),
        ("dev_nsp_accuracy", "#9c36b5", "next sentence"),
    ):
        points = [(step, 100 * share) for step, share in lines_with(run, key)]
        right.plot(*zip(*points, strict=True), "o-", ms=3, color=colour, label=label)
    right.set(title="dev accuracy (%)", xlabel="steps", ylim=(0, 70))
    for axes in (left, right):
        axes.legend(frameon=False, fontsize=9)
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    path = HERE / f"{name}.png"
    figure.savefig(path)
    return path


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
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
