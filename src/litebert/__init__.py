"""litebert: ALBERT from raw text to a served model."""

from __future__ import annotations

from importlib import import_module

__version__ = "0.1.0"

_PUBLIC = {
    "bundled_model": "litebert.bundled",
    "ModelConfig": "litebert.model.config",
    "preset": "litebert.model.config",
    "Tokenizer": "litebert.text.tokenizer",
    "TokenizerTrainConfig": "litebert.text.train",
    "train_tokenizer": "litebert.text.train",
    "PrepareConfig": "litebert.data.corpus.config",
    "prepare": "litebert.data.corpus.prepare",
    "PretrainConfig": "litebert.train.pretraining.config",
    "pretrain": "litebert.train.pretraining.engine",
    "FinetuneConfig": "litebert.train.finetuning.config",
    "finetune": "litebert.train.finetuning.engine",
    "evaluate_models": "litebert.predict.evaluate",
    "find_task": "litebert.tasks.registry",
    "write_report": "litebert.report.write",
    "load_model": "litebert.interop.hf",
    "save_model": "litebert.interop.hf",
    "Predictor": "litebert.predict.predictor",
}

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that `import litebert` stays instant."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'litebert' has no attribute '{name}'")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
