"""What a model folder was made for: form, labels, input length, depths; no weights are loaded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from litebert.common.errors import InputError
from litebert.interop.folder import ModelFolder
from litebert.interop.pooling import VectorRule
from litebert.model.config import Pooling
from litebert.model.head_table import HEADS, Head
from litebert.tasks.base import Form, Task
from litebert.tasks.custom import CustomTask
from litebert.tasks.forms.kinds import form_of_head
from litebert.tasks.scoring import are_unnamed, label_order
from litebert.tasks.task_file import TaskFile


@dataclass(frozen=True)
class Purpose:
    """What a model can be asked about, as its folder says."""

    folder: ModelFolder
    task: TaskFile | None  # what it was fine-tuned for, if the folder says so
    vectors: VectorRule  # how one vector is made of a text

    @classmethod
    def read(cls, folder: Path | str) -> Purpose:
        """Read a model folder or an ONNX folder."""
        found = ModelFolder(folder)
        return cls(found, TaskFile.read(found.path), VectorRule.read(found.path) or VectorRule())

    @property
    def head(self) -> Head:
        """The head of the model."""
        return self.folder.head

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels in the order of the outputs."""
        return self.folder.classes if self.task is None else self.task.labels

    def named(self, task: Task) -> Task:
        """Return a task with the model's labels, if it is to find them in data."""
        if isinstance(task, CustomTask) and not are_unnamed(self.labels):
            return task.with_labels(self.labels)
        return task

    def form(self) -> Form:
        """Return the form that the model was fine-tuned for, or else the one of its head."""
        own, task = self.folder, self.task
        form = task.form() if task else form_of_head(own.head, own.classes, multi_label=own.is_multi_label)
        if form is None:
            raise InputError(
                f"this model is for {self.head}, not for a task; fine-tune it with "
                "`litebert finetune`, or use fill-mask, order or embed"
            )
        return form.changed(pooling=self.vectors.pooling)

    def vector_rule(self, pooling: Pooling | None = None) -> VectorRule:
        """Return how one vector is made of a text: as the folder says, but pooled as asked."""
        return self.vectors if pooling is None else replace(self.vectors, pooling=pooling)

    def mismatch(self, task: Task) -> str | None:
        """Return why the model cannot do a task: it or its head is for another kind; or None."""
        if self.task is not None and self.task.kind != task.form.kind:
            return (
                f"{self.folder.path} was fine-tuned on {self.task.name} ({self.task.kind}), which "
                f"is not what {task.name} needs ({task.form.kind}); choose another model"
            )
        # Any encoder can be asked for vectors, whatever pretraining put on top of it.
        head = "encoder" if HEADS[self.head].pretrained else self.head
        if self.task is None and not {head, self.head} & set(task.form.heads):
            return (
                f"{self.folder.path} is a {self.head} model, which cannot do {task.name}: fine-tune it first, "
                f"`litebert finetune {task.name} --model {self.folder.path} ...`"
            )
        return None

    def form_for(self, task: Task) -> Form:
        """Return how to ask and read the model about a task: as its ``task.json`` says.

        The task's own form serves models without that file, with the names that the folder gives to its outputs, if it
        names them. Whether a question may have no answer is the task's to say: a SQuAD 2.0 model can be asked SQuAD
        1.1's questions. An InputError says that the model is for another kind of task, or has other labels.
        """
        form = task.form
        if self.task is not None:
            if (reason := self.mismatch(task)) is not None:
                raise InputError(reason)
            self.order_for(task)  # the same labels, or it is refused
            return self.form().changed(may_be_unanswerable=form.may_be_unanswerable)
        if "encoder" in form.heads and HEADS[self.head].pretrained:
            return form.changed(pooling=self.vectors.pooling)
        labels = self.form().labels
        if len(labels) == len(form.labels) > 0 and not are_unnamed(labels):
            return replace(form, labels=labels)  # negative and positive may be sst2's 0 and 1
        self.order_for(task)
        return form

    def order_for(self, task: Task) -> tuple[int, ...] | None:
        """Return at which output each label of a task stands; see :func:`label_order`."""
        return label_order(self.labels, task.form.labels, task.name, str(self.folder.path))

    def length(self, wished: int | None = None) -> int:
        """Return the longest input in tokens: as wished or as fine-tuned, cut to the model's."""
        longest = self.folder.config.max_positions
        trained = longest if self.task is None else self.task.max_length
        return min(trained if wished is None else wished, longest)

    def length_for(self, task: Task) -> int:
        """Return the longest input for a task: what the model was fine-tuned with, if known."""
        return self.length(task.max_length if self.task is None else None)

    def check_depth(self, depth: int, force: bool) -> None:
        """Raise InputError if the model cannot, or was not trained to (unless ``force``), answer after that depth."""
        num_layers = self.folder.config.num_layers
        if not 1 <= depth <= num_layers:
            raise InputError(f"depth {depth} is outside 1 to {num_layers}")
        trained = (self.task.depths if self.task is not None else ()) or (num_layers,)
        if depth not in (num_layers, *trained) and not force:
            known = ", ".join(map(str, trained))
            raise InputError(
                f"{self.folder.path} was not trained to answer at depth {depth}, only at {known}; "
                "fine-tune it with --train-exits, or use --force-depth to see what comes out"
            )
