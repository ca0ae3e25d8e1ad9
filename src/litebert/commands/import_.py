"""`litebert import`: turn checkpoints and folders of others into model folders."""

from __future__ import annotations

from pathlib import Path

from litebert.model.config import Activation


def tf(checkpoint: Path, out: Path, /) -> None:
    """Convert an official TensorFlow checkpoint to a model folder; TensorFlow is not needed.

    Every variable must fit: what is missing or left over is refused by name; optimizer slots are
    skipped. A SentencePiece model beside the checkpoint is copied too.

    Examples:
        litebert import tf albert_base_v2 models/albert-base-v2
        litebert import tf runs/squad/model.ckpt-8144 models/squad2

    Args:
        checkpoint: folder with albert_config.json and the checkpoint files, or the checkpoint's
            prefix when the folder holds several.
        out: model folder to write.
    """
    from litebert.interop.tf.importer import import_tf

    found = import_tf(checkpoint, out)
    skipped = f"{found.num_skipped} optimizer slots and counters skipped"
    tokenizer = f"{'with' if found.tokenizer else 'without'} tokenizer"
    print(f"{out}: {found.head}, {found.num_variables} variables imported, {skipped}, {tokenizer}")


def hf(model: str, out: Path, /, *, activation: Activation | None = None, num_heads: int | None = None) -> None:
    """Copy a Hugging Face folder or hub model to a model folder, with its settings corrected.

    Other commands read such folders as they are; this one is for released models whose settings
    are known to be off. The v1 models say gelu (the erf form) but were trained with the tanh form;
    the xlarge models say 16 heads where the paper has 32.

    Examples:
        litebert import hf albert/albert-base-v1 models/albert-base-v1 --activation gelu_tanh

    Args:
        model: model folder, run folder, or a model's name on the Hugging Face hub.
        out: model folder to write.
        activation: activation to write instead of the one given there.
        num_heads: number of attention heads to write instead of the one given there.
    """
    from litebert.interop.hf import copy_model

    overrides = {"activation": activation, "num_heads": num_heads}
    head = copy_model(model, out, {key: value for key, value in overrides.items() if value})
    print(f"{out}: {head}")
