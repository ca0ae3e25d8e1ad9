"""The fill-mask command: the likeliest words for each [MASK] of a text."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

from litebert.bundled import BUNDLED
from litebert.commands.flags import JSON, SWITCH
from litebert.predict.predictor import Predictor


def fill_mask(
    text: str,
    *,
    model: str = BUNDLED,
    top_k: int = 5,
    depth: int | None = None,
    force_depth: Annotated[bool, SWITCH] = False,
    json_: Annotated[bool, JSON] = False,
) -> None:
    """Print the likeliest words for each [MASK] of a text; +ing continues the word before it.

    Examples:
        litebert fill-mask "Paris is the [MASK] of France."
        litebert fill-mask --model runs/tiny/model "Paris is the [MASK] of France."
        litebert fill-mask --model exported/ "The [MASK] rose over the [MASK]." --top-k 3 --json

    Args:
        text: a text with one or more [MASK].
        model: a model folder, an ONNX folder, a run folder or a hub name; default: the small model
            that comes with litebert.
        top_k: candidates for each mask.
        depth: layers to run, for a model trained for it.
        force_depth: run at that depth even if the model was not trained for it.
        json_: print JSON.
    """
    predictor = Predictor.load(model, depth=depth, force_depth=force_depth)
    filled = predictor.fill_mask([text], top_k)[0]
    if json_:
        print(json.dumps(asdict(filled), ensure_ascii=False))
        return
    for number, candidates in enumerate(filled.masks, start=1):
        if len(filled.masks) > 1:
            print(f"mask {number}")
        shown = [f"{'+' if c.is_continuation else ''}{c.token}" for c in candidates]
        for candidate, word in zip(candidates, shown, strict=True):
            bar = "█" * max(1, round(40 * candidate.score))
            print(f"  {word:<{max(map(len, shown))}}  {candidate.score:6.1%}  {bar}")
    print(filled.text)
