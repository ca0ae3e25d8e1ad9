"""``task.json`` of a fine-tuned model folder: what the model was trained for."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path

from litebert.common.config import check_range, from_dict, to_dict
from litebert.common.files import read_json, write_json
from litebert.model.config import TASK_FILE
from litebert.tasks.base import Form
from litebert.tasks.forms.kinds import FORMS, Kind


@dataclass(frozen=True)
class TaskFile:
    """What a fine-tuned model does."""

    name: str  # the task it was fine-tuned on
    kind: Kind
    labels: tuple[str, ...] = ()  # in the order of the logits, where there are labels
    max_length: int = 512  # longest input in training, in tokens
    unanswerable: bool = False  # whether questions may have no answer (span extraction)
    no_answer_threshold: float = 0.5  # probability above which "no answer" is it; tuned on dev
    stride: int = 128  # pieces between the starts of two windows of a passage (span extraction)
    depths: tuple[int, ...] = ()  # layers after which it was trained to answer; empty: only all
    split_punctuation: bool = True  # whether a text to tag is cut there, as its words were
    columns: dict[str, str | tuple[str, ...]] = field(default_factory=dict)
    """the columns of the table it learned from, by what they hold, where it was one"""

    def __post_init__(self) -> None:
        check_range(self, "8 or more", "max_length", most=1 << 20)
        check_range(self, "1 or more", "stride", most=1 << 20)
        check_range(self, "0 to 1", "no_answer_threshold")

    @classmethod
    def of(cls, name: str, form: Form, max_length: int) -> TaskFile:
        """Describe a form: what it shares with these fields."""
        known = {field.name for field in fields(cls)}
        values = {key: value for key, value in vars(form).items() if key in known}
        values |= {"kind": form.kind, "unanswerable": form.may_be_unanswerable}
        return from_dict(cls, {"name": name, "max_length": max_length, **values}, name)

    @classmethod
    def read(cls, folder: Path) -> TaskFile | None:
        """Read the file of a model folder; None if it has none (a model of other tools)."""
        path = folder / TASK_FILE
        return from_dict(cls, read_json(path), str(path)) if path.is_file() else None

    def write(self, folder: Path) -> None:
        """Write the file into a model folder."""
        write_json(folder / TASK_FILE, to_dict(self))

    def form(self) -> Form:
        """Return features and decoding for this model."""
        form = FORMS[self.kind](labels=self.labels)
        return form.changed(**vars(self), may_be_unanswerable=self.unanswerable)
