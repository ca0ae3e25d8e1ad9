"""What a fine-tuning run is made of: its recipe, its data, its model and the loss of a batch."""

from __future__ import annotations

import sys
from dataclasses import replace

import torch
from torch import Tensor, nn

from litebert.common.errors import ConfigError
from litebert.common.rng import derived_seed
from litebert.dist.runtime import Precision, autocast
from litebert.interop import hf
from litebert.interop.folder import load_config, resolve
from litebert.model.config import ModelConfig
from litebert.model.head_table import HEADS, Head
from litebert.model.heads import TaskModel
from litebert.optim.config import OptimizerConfig
from litebert.predict.inputs import PaddedBatch
from litebert.predict.torch_backend import head_inputs
from litebert.tasks.registry import data_folder, find_task
from litebert.text.tokenizer import Tokenizer
from litebert.train.finetuning.config import FinetuneConfig, Settings
from litebert.train.finetuning.data import TaskData, load_task_data
from litebert.train.finetuning.order import exit_depths
from litebert.train.finetuning.recipes import Recipe, recipe_for


def prepare_data(config: FinetuneConfig, *, quiet: bool = False) -> TaskData:
    """Read and tokenise the data of a run; several seeds share it."""
    task = find_task(config.task)
    recipe, shape = _recipe(config)
    max_length = Settings.max_length_of(config, recipe, task.max_length, shape.max_positions)
    tokenizer = Tokenizer.load(resolve(config.model))
    if tokenizer.vocab_size > shape.vocab_size:
        raise ConfigError(
            f"{config.model} has a tokenizer of {tokenizer.vocab_size} pieces for a model of "
            f"{shape.vocab_size}: it is not the model's own"
        )
    data = load_task_data(
        task,
        data_folder(task, config.data),
        tokenizer,
        max_length,
        config.max_train_examples,
        config.strict,
        config.max_scored_examples,
    )
    if not quiet:
        for line in data.problems.report():
            print(line, file=sys.stderr)
    return data


def resolve_settings(config: FinetuneConfig, data: TaskData) -> Settings:
    """The recipe of a run with everything decided."""
    recipe, _ = _recipe(config)
    return Settings.resolve(config, recipe, data.max_length, len(data.train.features))


def depths_of(config: FinetuneConfig) -> tuple[int, ...]:
    """The depths at which the head is trained; none but the full one without exits."""
    return exit_depths(load_config(config.model)) if config.train_exits else ()


def optimizer_config(config: FinetuneConfig, settings: Settings) -> OptimizerConfig:
    """AdamW with the constants of a run."""
    return OptimizerConfig(
        name="adamw", weight_decay=config.weight_decay, bias_correction=settings.bias_correction
    )


def build_task_model(
    config: FinetuneConfig, settings: Settings, data: TaskData
) -> tuple[nn.Module, Head]:
    """The model to train, with a new head that is the same for equal seeds; the head's name."""
    head = data.task.form.head(config.head)
    generator = torch.Generator().manual_seed(derived_seed(config.seed, "new head"))
    overrides: dict[str, object] = {
        "hidden_dropout": settings.dropout,
        "attention_dropout": settings.dropout,
        "classifier_dropout": settings.classifier_dropout,
    }
    num_labels = len(data.task.form.labels) or None
    if config.start == "random":
        shape = load_config(config.model, overrides)
        return hf.build_model(shape, head, num_labels, generator).train(), head
    model = hf.load_model(
        config.model,
        head,
        new_head=True,
        num_labels=num_labels,
        overrides=overrides,
        generator=generator,
    )
    return model.train(), head


def batch_loss(
    model: nn.Module, batch: PaddedBatch, device: torch.device, num_layers: int | None = None
) -> Tensor:
    """Return the loss of a batch summed over its labels (``batch.num_labels`` of them).

    The caller divides by their number over the whole step. ``num_layers`` runs fewer layers.
    """
    assert isinstance(model, TaskModel), "fine-tuning trains task models"
    assert batch.targets is not None, "training needs gold labels"
    targets = torch.from_numpy(batch.targets).to(device)
    return model.task_loss(head_inputs(batch, device), targets, num_layers) * batch.num_labels


class TaskLoss(nn.Module):
    """A task model as a module that gives the loss of a batch: what is wrapped for processes."""

    def __init__(self, model: nn.Module, device: torch.device, precision: Precision) -> None:
        super().__init__()
        self.model, self.device, self.precision = model, device, precision

    def forward(self, batch: PaddedBatch, num_labels: int, early: int | None) -> Tensor:
        """The loss of a batch by the step's number of labels; its mean with that at an exit."""
        with autocast(self.precision, self.device):
            loss = batch_loss(self.model, batch, self.device) / num_labels
            if early is not None:
                shallow = batch_loss(self.model, batch, self.device, early) / num_labels
                loss = (loss + shallow) / 2
        return loss

    def freeze_unused(self, batch: PaddedBatch) -> None:
        """Take parameters that the loss does not reach out of training: DDP would wait for them.

        A head that reads every token leaves the pooler unused, for one.
        """
        torch.autograd.backward(self(batch, 1, None))
        for parameter in self.parameters():
            parameter.requires_grad_(parameter.grad is not None)
        self.zero_grad(set_to_none=True)


def _recipe(config: FinetuneConfig) -> tuple[Recipe, ModelConfig]:
    task, shape = find_task(config.task), load_config(config.model)
    recipe = recipe_for(task, shape)
    if not HEADS[task.form.head(config.head)].dropout:
        recipe = replace(recipe, classifier_dropout=0.0)
    return recipe, shape
