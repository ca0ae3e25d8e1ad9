"""litebert: ALBERT from raw text to a served model."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.2.0.dev0"

if TYPE_CHECKING:
    from litebert.bundled import bundled_model as bundled_model
    from litebert.data.batches.example import ExampleConfig as ExampleConfig
    from litebert.data.batches.example import MaskConfig as MaskConfig
    from litebert.data.corpus.config import PrepareConfig as PrepareConfig
    from litebert.data.corpus.prepare import prepare as prepare
    from litebert.interop.hf import load_model as load_model
    from litebert.interop.hf import save_model as save_model
    from litebert.model.config import ModelConfig as ModelConfig
    from litebert.model.config import ModelSection as ModelSection
    from litebert.model.config import preset as preset
    from litebert.optim.config import OptimizerConfig as OptimizerConfig
    from litebert.optim.schedule import ScheduleConfig as ScheduleConfig
    from litebert.predict.evaluate import evaluate_models as evaluate_models
    from litebert.predict.predictor import Predictor as Predictor
    from litebert.predict.predictor import answer_rows as answer_rows
    from litebert.report.write import write_report as write_report
    from litebert.tasks.registry import find_task as find_task
    from litebert.text.sentences import split_sentences as split_sentences
    from litebert.text.tokenizer import Tokenizer as Tokenizer
    from litebert.text.train import TokenizerTrainConfig as TokenizerTrainConfig
    from litebert.text.train import train_tokenizer as train_tokenizer
    from litebert.train.adapting.config import AdaptConfig as AdaptConfig
    from litebert.train.adapting.engine import adapt as adapt
    from litebert.train.finetuning.config import FinetuneConfig as FinetuneConfig
    from litebert.train.finetuning.engine import finetune as finetune
    from litebert.train.pretraining.config import Checkpoints as Checkpoints
    from litebert.train.pretraining.config import Curriculum as Curriculum
    from litebert.train.pretraining.config import Evaluation as Evaluation
    from litebert.train.pretraining.config import InitialWeights as InitialWeights
    from litebert.train.pretraining.config import Objective as Objective
    from litebert.train.pretraining.config import PretrainConfig as PretrainConfig
    from litebert.train.pretraining.engine import pretrain as pretrain
    from litebert.train.pretraining.scoring import evaluate_pretraining as evaluate_pretraining
    from litebert.train.probe import probe as probe

_PUBLIC = {
    "litebert.bundled": "bundled_model",
    "litebert.data.batches.example": "ExampleConfig MaskConfig",
    "litebert.data.corpus.config": "PrepareConfig",
    "litebert.data.corpus.prepare": "prepare",
    "litebert.interop.hf": "load_model save_model",
    "litebert.model.config": "ModelConfig ModelSection preset",
    "litebert.optim.config": "OptimizerConfig",
    "litebert.optim.schedule": "ScheduleConfig",
    "litebert.predict.evaluate": "evaluate_models",
    "litebert.predict.predictor": "Predictor answer_rows",
    "litebert.report.write": "write_report",
    "litebert.tasks.registry": "find_task",
    "litebert.text.sentences": "split_sentences",
    "litebert.text.tokenizer": "Tokenizer",
    "litebert.text.train": "TokenizerTrainConfig train_tokenizer",
    "litebert.train.adapting.config": "AdaptConfig",
    "litebert.train.adapting.engine": "adapt",
    "litebert.train.finetuning.config": "FinetuneConfig",
    "litebert.train.finetuning.engine": "finetune",
    "litebert.train.pretraining.config": ("Checkpoints Curriculum Evaluation InitialWeights Objective PretrainConfig"),
    "litebert.train.pretraining.engine": "pretrain",
    "litebert.train.pretraining.scoring": "evaluate_pretraining",
    "litebert.train.probe": "probe",
}
_MODULE_OF = {name: module for module, names in _PUBLIC.items() for name in names.split()}

__all__ = ["__version__", *_MODULE_OF]

if not TYPE_CHECKING:  # a checker knows the names from the imports above

    def __getattr__(name: str) -> object:
        """Import a public name when it is first used, so that `import litebert` stays instant."""
        if name not in _MODULE_OF:
            raise AttributeError(f"module 'litebert' has no attribute '{name}'")
        return getattr(import_module(_MODULE_OF[name]), name)

    def __dir__() -> list[str]:
        return sorted(__all__)
