"""The kinds of tasks: the form of each, by its name and by the head of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from litebert.model.head_table import Head
from litebert.tasks.base import Form
from litebert.tasks.forms.similarity import SimilarityForm
from litebert.tasks.forms.spans import SpanForm
from litebert.tasks.forms.tags import TagForm
from litebert.tasks.forms.texts import ChoiceForm, ClassificationForm, MultiLabelForm, RegressionForm

Kind = Literal[
    "classification",
    "multi_label",
    "regression",
    "multiple_choice",
    "span_extraction",
    "token_classification",
    "similarity",
]

FORMS: Mapping[Kind, type[Form]] = {
    "classification": ClassificationForm,
    "multi_label": MultiLabelForm,
    "regression": RegressionForm,
    "multiple_choice": ChoiceForm,
    "span_extraction": SpanForm,
    "token_classification": TagForm,
    "similarity": SimilarityForm,
}


def form_of_head(head: Head, classes: tuple[str, ...] = (), *, multi_label: bool = False) -> Form | None:
    """Return the form of a model that says no more than its head; None if that does no task."""
    for form in FORMS.values():
        if head in form.heads and form.multi_label == multi_label:
            labels = classes if form.needs_labels else ()
            return form(labels=labels).changed(may_be_unanswerable=head == "squad2")
    return None
