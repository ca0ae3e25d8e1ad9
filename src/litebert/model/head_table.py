"""The table of heads: for each its class, its names in a folder, its outputs and what it answers.

Everything that differs between heads outside their own arithmetic is a column here. A new head is
a row of this table, a class in :mod:`litebert.model.heads` and a form of task that uses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from torch import nn

Head = Literal[
    "encoder",
    "pretraining",
    "masked_lm",
    "classification",
    "regression",
    "multiple_choice",
    "token_classification",
    "span",
    "squad2",
]


@dataclass(frozen=True)
class Output:
    """A named output of a model (float32 where a backend gives it out)."""

    name: str
    per: Literal["feature", "token", "mask"] = "feature"
    """first axes: [B, ...], [B, S, ...] or [M, ...] over the masked positions of a batch"""
    by_label: bool = False  # whether the last axis is that of the labels in ``config.json``
    foreign_name: str | None = None  # what Optimum calls it in an ONNX file, where that differs


@dataclass(frozen=True)
class HeadRow:
    """One head."""

    model_class: str  # dotted name of its class; imported when used, because it needs torch
    architecture: str  # class name in ``architectures`` without its ``Albert`` or ``Litebert``
    outputs: tuple[Output, ...]
    """what it gives beside the hidden states, in the order of its columns if it is linear"""
    pooled: bool = True  # whether it reads the pooled vector
    linear: str = ""
    """module name of the one linear map that is the whole head (over the pooled vector or over
    each token); several outputs are one column each. Empty: the head has code of its own"""
    labelled: bool = False  # whether ``config.json`` names its outputs, and so says how many there are
    choices: bool = False  # whether its inputs are [B, choices, S] with one score for each
    dropout: bool = True  # whether the official code has dropout in it
    pretrained: bool = False
    """whether pretraining gives it, so that a new head keeps the parts that are there"""
    modules: Mapping[str, str] = field(default_factory=dict)
    """our module name -> transformers' name, for modules of a weight and a bias"""
    tensors: Mapping[str, str] = field(default_factory=dict)
    """our parameter name -> transformers' name, for single parameters"""
    part_of: Head | None = None  # the head whose class it shares, of which it lacks a part
    problem_type: str | None = None
    """``problem_type`` in ``config.json``; tells heads of one architecture apart"""
    foreign: bool = True  # whether transformers has this head
    answers: tuple[str, ...] = ()  # what it can be asked, as the names of the server's endpoints

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the outputs."""
        return tuple(output.name for output in self.outputs)

    @property
    def bare(self) -> bool:
        """Whether it is the encoder alone."""
        return not self.modules

    @property
    def has_classes(self) -> bool:
        """Whether its labels are classes or tags that it tells apart."""
        return any(output.by_label for output in self.outputs)


BEAM = 5
"""Starts, and ends per start, that the paper's SQuAD 2.0 head keeps."""

_HEADS = "litebert.model.heads."
_POOLED = Output("pooler_output")
_WORDS = Output("masked_logits", "mask", foreign_name="logits")
_LOGITS = Output("logits")
_BEAMS = ("start_top_log_probs", "start_top_index", "end_top_log_probs", "end_top_index")
_SQUAD2_MODULES = ("start", "end_hidden", "end_norm", "end", "answer_hidden")
_MLM_MODULES = {"mlm.transform": "predictions.dense", "mlm.norm": "predictions.LayerNorm"}
_pretraining = partial(
    HeadRow, "litebert.model.pretraining.PretrainingModel", pretrained=True, tensors={"mlm.bias": "predictions.bias"}
)
_classifier = partial(HeadRow, linear="classifier", modules={"classifier": "classifier"}, labelled=True)

HEADS: Mapping[Head, HeadRow] = {
    "encoder": HeadRow("litebert.model.encoder.Encoder", "Model", (_POOLED,), pretrained=True),
    "pretraining": _pretraining(
        "ForPreTraining",
        (_POOLED, _WORDS, Output("sop_logits")),
        modules=_MLM_MODULES | {"sentence": "sop_classifier.classifier"},
        answers=("fill-mask", "order"),
    ),
    "masked_lm": _pretraining(
        "ForMaskedLM", (_WORDS,), pooled=False, modules=_MLM_MODULES, part_of="pretraining", answers=("fill-mask",)
    ),
    "classification": _classifier(
        _HEADS + "SequenceClassifier",
        "ForSequenceClassification",
        (Output("logits", by_label=True),),
        problem_type="single_label_classification",
        answers=("classify",),
    ),
    "regression": _classifier(
        _HEADS + "SequenceRegressor",
        "ForSequenceClassification",
        (_LOGITS,),
        problem_type="regression",
        answers=("classify",),
    ),
    "multiple_choice": _classifier(
        _HEADS + "MultipleChoice",
        "ForMultipleChoice",
        (_LOGITS,),
        labelled=False,
        choices=True,
        answers=("multiple-choice",),
    ),
    "token_classification": _classifier(
        _HEADS + "TokenClassifier",
        "ForTokenClassification",
        (Output("token_logits", "token", by_label=True, foreign_name="logits"),),
        pooled=False,
        answers=("tag",),
    ),
    "span": HeadRow(
        _HEADS + "SpanExtractor",
        "ForQuestionAnswering",
        (Output("start_logits", "token"), Output("end_logits", "token")),
        pooled=False,
        linear="span",
        dropout=False,
        modules={"span": "qa_outputs"},
        answers=("answer",),
    ),
    "squad2": HeadRow(
        "litebert.model.squad2.Squad2Model",
        "ForSquad2",
        tuple(map(Output, (*_BEAMS, "answer_logits"))),
        pooled=False,
        modules={name: name for name in _SQUAD2_MODULES},
        tensors={"answer.weight": "answer.weight"},
        foreign=False,
        answers=("answer",),
    ),
}

ENCODER_OUTPUTS = (Output("last_hidden_state", "token"), Output("hidden_states", "token"))
"""What a model of any head gives: [B, S, H] and [B, S, blocks + 1, H]."""

OUTPUTS: Mapping[str, Output] = {
    output.name: output for outputs in (ENCODER_OUTPUTS, *(row.outputs for row in HEADS.values())) for output in outputs
}
"""Every output by name. ``per`` is the same for all heads that give it; ``by_label`` is the head's to say."""


def outputs_of_head(head: Head) -> frozenset[str]:
    """Return the names of all that a model with this head can compute."""
    return frozenset(output.name for output in (*ENCODER_OUTPUTS, *HEADS[head].outputs))


def head_of_class(model_class: type) -> Head | None:
    """Return the head of a class, or of the nearest class it is made from; None without one."""
    for base in model_class.__mro__:
        for head, row in HEADS.items():
            if row.model_class == f"{base.__module__}.{base.__qualname__}":
                return head
    return None


def head_class(head: Head) -> type[nn.Module]:
    """Import and return the class of a head."""
    module, _, name = HEADS[head].model_class.rpartition(".")
    found: type[nn.Module] = getattr(import_module(module), name)
    return found
