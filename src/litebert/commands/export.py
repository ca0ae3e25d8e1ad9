"""The export commands, models for other runtimes, and the push of one to the hub."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

from litebert.commands.flags import SETTINGS, AsJson
from litebert.common.errors import ConfigError
from litebert.interop.hub import HubFacts, export_hub, push_hub
from litebert.predict.export import DevCheck, export_checked
from litebert.predict.purpose import Purpose

_MAX_DROP = 0.02
"""Share of the dev score that an export may lose unless told otherwise."""


def onnx(
    source: str,
    out: Path,
    *,
    int8: bool = False,
    int8_bits: Literal[7, 8] = 7,
    depth: int | None = None,
    force_depth: bool = False,
    pooling: Literal["mean", "cls"] | None = None,
    dev: str | None = None,
    max_drop: float | None = None,
    force: bool = False,
    json_: AsJson = False,
) -> None:
    """Export a model folder to ONNX, every weight stored once, and verify the result.

    Examples:
        litebert export onnx runs/base/model exported/
        litebert export onnx runs/sst2/model small/ --int8 --dev sst2:glue/SST-2
        litebert export onnx runs/sst2 small/ --int8
        litebert export onnx bundled exported/ --int8

    Args:
        source: a model folder, a run folder or a hub name; bundled is the small model that comes with litebert.
        out: the new folder: model.onnx, config.json and the tokenizer.
        int8: store matrices as int8 and multiply integers: a quarter of the size, faster.
        int8_bits: 8 is more exact, for processors with VNNI only; others refuse to run it.
        depth: layers to run, for a model fine-tuned with --train-exits.
        force_depth: export that depth even if the model was not trained for it.
        pooling: how sentence-transformers makes one vector of a text with this folder; default: as the source folder
            says, else mean.
        dev: TASK:DIR, or a task file alone; score the dev set before and after, and refuse too large a drop.
        max_drop: share of the dev score that may be lost; 0.02 unless set.
        force: keep the export whatever it lost.
    """
    if dev is None and (force or max_drop is not None):
        flag = "--force" if force else "--max-drop"
        raise ConfigError(f"{flag} is about the dev score: give --dev TASK:DIR, or leave it out")
    if depth is not None:
        Purpose.read(source).check_depth(depth, force_depth)
    report, drop = export_checked(
        source,
        out,
        None if dev is None else DevCheck.parse(dev),
        int8=int8,
        int8_bits=int8_bits,
        depth=depth,
        pooling=pooling,
        max_drop=math.inf if force else _MAX_DROP if max_drop is None else max_drop,
    )
    if json_:
        print(json.dumps({**asdict(report), "dev": drop and asdict(drop)}, default=str))
        return
    file, weights = report.file_bytes / 1e6, report.weight_bytes / 1e6
    products = f", {report.num_integer_matmuls} integer products" if int8 else ""
    difference, kind = f"{report.difference:.2g}", "root mean square" if int8 else "largest"
    print(f"{report.path}/model.onnx: {report.head}, {report.num_layers} layers, {report.precision}")
    print(f"  {report.precision}: {file:.2f} MB for {weights:.2f} MB of weights{products}")
    print(f"  difference to the weights: {difference} over {len(report.shapes)} shapes ({kind})")
    if drop is not None:
        print(f"  dev {drop.metric}: {drop.before:.4g} before, {drop.after:.4g} after")


def hub(
    source: str,
    out: Path,
    *,
    facts: Annotated[HubFacts | None, SETTINGS] = None,
    pooling: Literal["mean", "cls"] | None = None,
    json_: AsJson = False,
) -> None:
    """Export one folder that transformers, sentence-transformers, onnxruntime and browsers load.

    It holds safetensors, ONNX in float32 and int8, the tokenizer, pooling for embeddings, and a card whose metadata has
    language, licence, data sets, scores and cost: from the run and the model's own card, or from the flags.

    Examples:
        litebert export hub runs/sst2 sst2-albert --language en --licence apache-2.0
        litebert export hub bundled small-albert --dataset wikimedia/wikipedia

    Args:
        source: a model folder, a run folder or a hub name; bundled is the small model that comes with litebert.
        out: the new folder.
        pooling: how sentence-transformers makes one vector of a text; default: as the source folder says, else mean.
    """
    report = export_hub(source, out, facts, pooling=pooling)
    if json_:
        print(json.dumps({**asdict(report), "path": str(out)}))
        return
    _show_files(out, report.files)
    if missing := [flag for flag in ("language", "licence", "dataset") if not getattr(report.facts, flag)]:
        print(f"  its card does not say: {', '.join(missing)} (--{' --'.join(missing)})")


def web_page(source: str, out: Path, *, json_: AsJson = False) -> None:
    """Export a page that runs a model in the browser, from any file server, without Python.

    Models that fill masks, judge order, classify or embed; in int8. The folder holds the model,
    its tokenizer and onnxruntime-web; nothing is loaded from elsewhere, no text leaves the page.

    Examples:
        litebert export page bundled page
        litebert export page runs/sst2 page && python -m http.server --directory page

    Args:
        source: a model folder, an ONNX folder, a run folder or a hub name; bundled is the small
            model that comes with litebert.
        out: the new folder.
    """
    from litebert.serve.page import export_page

    files = export_page(source, out)
    if json_:
        print(json.dumps({"path": str(out), "files": files}))
        return
    _show_files(out, files)
    print(f"Try it: python -m http.server --directory {out}")


def _show_files(folder: Path, files: dict[str, int]) -> None:
    print(f"{folder}: {len(files)} files, {sum(files.values()) / 1e6:.2f} MB")
    for name, size in files.items():
        print(f"  {size / 1e6:9.2f} MB  {name}")


def checkpoint(run: Path, out: Path, *, step: str = "best") -> None:
    """Turn a checkpoint of a pretraining run into a model folder.

    The run's own model folder holds the weights of its end; an interrupted run has none, and the
    best weights by the dev metric may be earlier ones.

    Examples:
        litebert export checkpoint runs/base best-model/
        litebert export checkpoint runs/base model-50000/ --step 50000

    Args:
        run: a pretraining run folder.
        out: the new model folder.
        step: best, last, or the number of a step that has a checkpoint.
    """
    from litebert.train.pretraining.results import export_checkpoint

    print(f"{out}: the weights of step {export_checkpoint(run, out, step):,}")


def push(folder: Path, name: str, /, *, private: bool = False) -> None:
    """Upload a folder that `litebert export hub` wrote to the Hugging Face hub, as one commit.

    Who you are comes from `hf auth login` or HF_TOKEN; HF_ENDPOINT names another hub.

    Examples:
        litebert export hub runs/sst2 sst2-albert --language en --licence apache-2.0
        litebert push sst2-albert my-name/sst2-albert --private

    Args:
        folder: what export hub wrote; its card must name a licence.
        name: OWNER/NAME on the hub; made if it is not there.
        private: make a new repository that others do not see.
    """
    print(push_hub(folder, name, private=private))
