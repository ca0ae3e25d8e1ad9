"""Make the bundled model: a pretraining run in half precision, with a card of what it reaches."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from bundle_card import Earlier, bundle_card
from hidden_words import find_hidden_words

from litebert.bundled import bundled_folder
from litebert.common.errors import CheckpointError
from litebert.common.files import atomic_folder
from litebert.interop.folder import CONFIG_FILE, WEIGHTS_FILE
from litebert.text.folder import copy_tokenizer
from litebert.train.probe import probe

MAX_BYTES = 6_000_000
"""Most that the bundled model's folder may hold: it travels with every installation."""


def make_bundle(
    run: Path,
    out: Path,
    shards: Path,
    *,
    data: str,
    finetuned: Sequence[Path] = (),
    earlier: Earlier | None = None,
    glue: Path | None = None,
    num_hidden_words: int = 2000,
    max_bytes: int = MAX_BYTES,
) -> int:
    """Write the folder; the size of its weights in bytes.

    Args:
        run: a finished pretraining run.
        out: the folder; an existing one is replaced, whole or not at all.
        shards: the run's shards: their dev documents are what the model is asked about.
        data: what the texts are and under which licence, for the card.
        finetuned: fine-tuning runs that started from this model, for the card.
        earlier: what came before the run, if it continued a model.
        glue: folder with SST-2, on which frozen states are probed for the card.
        num_hidden_words: sentences with one hidden word.
        max_bytes: larger weights are refused.
    """
    source = run / "model"
    if not (source / WEIGHTS_FILE).is_file():
        raise CheckpointError(f"{source} has no {WEIGHTS_FILE}: the run must have come to its end")
    with atomic_folder(out, replace=True) as temporary:
        write_half_precision(source / WEIGHTS_FILE, temporary / WEIGHTS_FILE)
        shutil.copyfile(source / CONFIG_FILE, temporary / CONFIG_FILE)
        copy_tokenizer(source, temporary)
        # Measured with the weights that are shipped, not with the run's.
        words = find_hidden_words(temporary, shards, num_hidden_words)
        probed = None if glue is None else probe(temporary, "sst2", glue)
        card = bundle_card(run, temporary, words, data, finetuned, earlier, probed)
        (temporary / "README.md").write_text(card, encoding="utf-8")
        size = (temporary / WEIGHTS_FILE).stat().st_size
        if size > max_bytes:
            raise CheckpointError(
                f"the weights would have {size:,} bytes, at most {max_bytes:,} are allowed; "
                "bundle a smaller model or vocabulary"
            )
    return size


def write_half_precision(source: Path, target: Path) -> None:
    """Copy a safetensors file with its floating-point tensors in float16.

    float16 rounds to about 1 part in 2,000 and ends at 65,504; a weight beyond that is refused.
    """
    from safetensors.numpy import load_file, save_file

    tensors = load_file(source)
    for name, tensor in tensors.items():
        if tensor.dtype.kind != "f":
            continue
        with np.errstate(over="ignore"):
            half = tensor.astype(np.float16)
        if not np.isfinite(half).all():
            raise CheckpointError(f"{source}: {name} holds weights that float16 cannot")
        tensors[name] = half
    save_file(tensors, target, metadata={"format": "pt"})


def main() -> None:
    """Command line; `runs/bundle.sh` calls it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="a finished pretraining run")
    parser.add_argument("--shards", type=Path, required=True, help="its token shards")
    parser.add_argument("--data", required=True, help="what the texts are, and their licence")
    parser.add_argument("--finetuned", type=Path, nargs="*", default=[], help="fine-tuning runs")
    parser.add_argument("--earlier", default="", help="how the start was trained, in a sentence")
    parser.add_argument("--earlier-tokens", type=int, default=0, help="tokens it has seen")
    parser.add_argument("--glue", type=Path, help="folder with SST-2, to probe frozen states")
    parser.add_argument("--out", type=Path, default=bundled_folder())
    options = parser.parse_args()
    size = make_bundle(
        options.run,
        options.out,
        options.shards,
        data=options.data,
        finetuned=options.finetuned,
        earlier=Earlier(options.earlier_tokens, options.earlier),
        glue=options.glue,
    )
    print(f"{options.out}: {size / 1e6:.2f} MB; its card is {options.out / 'README.md'}")


if __name__ == "__main__":
    main()
