"""Export a model as one folder that every runtime loads: weights, ONNX, pooling, card."""

from __future__ import annotations

import math
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from litebert.common.errors import CheckpointError, ConfigError, InputError
from litebert.common.files import atomic_folder, check_free, file_sizes, read_json, write_text
from litebert.common.runs import RESULT_FILE, RunFolder
from litebert.interop.card import CARD_FILE, hub_card, pipeline_tag, runs_in_script, sections
from litebert.interop.folder import CONFIG_FILE, WEIGHTS_FILE, ModelFolder
from litebert.interop.names import is_foreign
from litebert.interop.onnx.export import MODEL_FILE, export_onnx
from litebert.interop.pooling import VectorRule
from litebert.model.config import TASK_FILE, Pooling
from litebert.model.head_table import HEADS
from litebert.text.folder import copy_tokenizer
from litebert.text.tokenizer import has_tokenizer

ONNX_FOLDER = "onnx"
QUANTIZED_FILE = "model_quantized.onnx"
"""What Optimum and transformers.js call the two."""

_GLUE = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli", "ax")
_DATASETS = {
    **dict.fromkeys(_GLUE, "nyu-mll/glue"),
    "squad1": "rajpurkar/squad",
    "squad2": "rajpurkar/squad_v2",
    "race": "ehovy/race",
}
"""Our tasks by their names on the hub."""
_METRICS = {
    "matthews": "matthews_correlation", "pearson": "pearsonr", "spearman": "spearmanr",
    "masked_loss": "loss", "mlm_accuracy": "accuracy",
}  # fmt: skip
"""Our scores by the names that the hub gives them."""
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*|multilingual|code")
_LICENCE = re.compile(r"[a-z0-9][a-z0-9.-]*")


@dataclass(frozen=True)
class HubFacts:
    """What a card says in its metadata besides the shape of the model."""

    language: tuple[str, ...] = ()  # languages of its text, as ISO codes: en, pt-BR
    licence: str | None = None  # its licence as the hub spells it: apache-2.0, cc-by-sa-4.0
    dataset: tuple[str, ...] = ()  # data sets it was trained on, as the hub calls them
    base_model: str | None = None  # the model on the hub that it was made from
    task: str | None = None  # the task of the scores
    scores: dict[str, float] = field(default_factory=dict)  # by our names, on dev
    cost: dict[str, str | float] = field(default_factory=dict)
    """what the training took: steps, tokens, seconds, machine"""

    def __post_init__(self) -> None:
        for code in self.language:
            if not _LANGUAGE.fullmatch(code):
                raise ConfigError(f"language is '{code}'; use an ISO code: en, de, pt-BR")
        if self.licence is not None and not _LICENCE.fullmatch(self.licence):
            raise ConfigError(f"licence is '{self.licence}'; use the hub's spelling: apache-2.0, mit, cc-by-4.0")


@dataclass(frozen=True)
class HubReport:
    """What an export wrote."""

    path: Path
    files: dict[str, int]  # every file with its size in bytes
    facts: HubFacts


def export_hub(
    source: Path | str, out: Path | str, facts: HubFacts | None = None, *, pooling: Pooling | None = None
) -> HubReport:
    """Write a folder that transformers, sentence-transformers, onnxruntime and browsers load.

    Args:
        source, out, pooling: as in :func:`export_onnx`.
        facts: go before what the run and the model's own card say.
    """
    check_free(out)
    folder = ModelFolder(source)
    if not has_tokenizer(folder.path):
        raise CheckpointError(f"{folder.path} has no tokenizer, so nobody could use it; copy its spiece.model there")
    name, card = Path(out).resolve().name, folder.card
    own = _facts_of_card(card, folder.path / CARD_FILE)
    facts = _merged(facts or HubFacts(), own, _facts_of_run(folder.path))
    with atomic_folder(out) as temporary, tempfile.TemporaryDirectory() as scratch:
        full, small = Path(scratch) / "float32", Path(scratch) / "int8"
        graphs = temporary / ONNX_FOLDER
        export_onnx(folder.path, full, pooling=pooling)
        export_onnx(folder.path, small, int8=True)
        _write_weights(folder, temporary)
        graphs.mkdir()
        for file in full.glob(f"{MODEL_FILE}*"):
            shutil.move(file, graphs)
        if len(list(small.glob(f"{MODEL_FILE}*"))) > 1:
            raise CheckpointError(f"{folder.path} is too large for one file of 8-bit weights")
        shutil.move(small / MODEL_FILE, graphs / QUANTIZED_FILE)
        if (rule := VectorRule.read(full)) is not None:
            rule.write(temporary, folder.config.hidden_size, folder.config.max_positions)
        is_embedder = HEADS[folder.head].bare and VectorRule.read(folder.path) is not None
        front = _front_matter(folder, name, facts, is_embedder)
        files = file_sizes(temporary)
        text = hub_card(folder.config, folder.head, name, front, files, sections(card))
        write_text(temporary / CARD_FILE, text)
    return HubReport(Path(out), file_sizes(Path(out)), facts)


def _write_weights(folder: ModelFolder, target: Path) -> None:
    """Copy weights, settings and tokenizer; others than one safetensors file are written anew."""
    if not (folder.path / WEIGHTS_FILE).is_file():
        from litebert.interop.hf import copy_model

        copy_model(folder.path, target)
        return
    for name in (CONFIG_FILE, WEIGHTS_FILE, TASK_FILE):
        if (folder.path / name).is_file():
            shutil.copyfile(folder.path / name, target / name)
    copy_tokenizer(folder.path, target)


def _merged(first: HubFacts, *others: HubFacts) -> HubFacts:
    """Fill what the first does not say from the others, in their order."""
    for other in others:
        missing = {key: value for key, value in vars(other).items() if not getattr(first, key)}
        first = replace(first, **missing)
    return first


def _facts_of_card(card: str, path: Path) -> HubFacts:
    """What the model's own card says in its metadata."""
    from huggingface_hub import ModelCard

    try:
        data = vars(ModelCard(card, ignore_metadata_errors=True).data)
    except Exception as error:  # those of YAML are a family of their own
        reason = str(error).partition("\n")[0]
        raise CheckpointError(f"the metadata at the top of {path} is not YAML: {reason}") from None
    base, licence = data.get("base_model"), str(data.get("license"))
    return HubFacts(
        language=tuple(filter(_LANGUAGE.fullmatch, _texts(data.get("language")))),
        licence=licence if _LICENCE.fullmatch(licence) else None,  # "None" is not one
        dataset=_texts(data.get("datasets")),
        base_model=base if isinstance(base, str) else None,
    )


def _texts(value: object) -> tuple[str, ...]:
    values = value if isinstance(value, list) else [value]
    return tuple(text for text in values if isinstance(text, str))


def _facts_of_run(model: Path) -> HubFacts:
    """What the run folder around a model says: its scores on dev, and what it took."""
    if not RunFolder.exists(model.parent):
        return HubFacts()
    run = RunFolder(model.parent)
    machine = run.section("machine") if "machine" in run.manifest() else {}
    place = {key: str(machine[key]) for key in ("platform", "cores") if key in machine}
    if (run.path / RESULT_FILE).is_file():
        result = read_json(run.path / RESULT_FILE)
        scores, task = result.get("scores"), str(result.get("task"))
        keys = ("steps", "epochs", "tokens", "seconds", "train_examples")
        return HubFacts(
            dataset=(_DATASETS[task],) if task in _DATASETS else (),
            task=task,
            scores=_numbers(scores) if isinstance(scores, Mapping) else {},
            cost=_numbers({key: result.get(key) for key in keys}) | place,
        )
    lines = [line for line in run.metrics() if "event" not in line]
    measured = next((line for line in reversed(lines) if "dev_masked_loss" in line), {})
    scores = {key: measured.get(f"dev_{key}") for key in ("masked_loss", "mlm_accuracy")}
    last = lines[-1] if lines else {}
    names = {"steps": "step", "tokens": "tokens", "seconds": "elapsed_s"}
    cost = _numbers({name: last.get(key) for name, key in names.items()}) | place
    return HubFacts(task="masked words", scores=_numbers(scores), cost=cost)


def _numbers(values: Mapping[str, object]) -> dict[str, float]:
    """The finite numbers of a JSON object; YAML for the hub knows no others."""
    numbers = {key: value for key, value in values.items() if isinstance(value, (int, float))}
    return {key: value for key, value in numbers.items() if math.isfinite(value)}


def _front_matter(folder: ModelFolder, name: str, facts: HubFacts, is_embedder: bool) -> str:
    """The card's metadata as YAML, in the hub's words."""
    from huggingface_hub import EvalResult, ModelCardData

    tag = "sentence-similarity" if is_embedder else pipeline_tag(folder.head)
    library = "transformers" if is_foreign(folder.config, folder.head) else "litebert"
    script = ["transformers.js"] if runs_in_script(folder.config, folder.head) else []
    task = facts.task or "dev"
    results = [
        EvalResult(
            task_type=tag,
            dataset_type=_DATASETS.get(task) or re.sub(r"\W+", "-", task),
            dataset_name=task,
            dataset_config=task if task in _GLUE else None,
            dataset_split="validation",
            metric_type=_METRICS.get(metric, metric),
            metric_name=metric,
            metric_value=value,
        )
        for metric, value in facts.scores.items()
    ]
    data = ModelCardData(
        language=list(facts.language) or None,
        license=facts.licence,
        library_name="sentence-transformers" if is_embedder else library,
        pipeline_tag=tag,
        tags=["albert", "litebert", "onnx", *script],
        datasets=list(facts.dataset) or None,
        base_model=facts.base_model,
        model_name=name,
        eval_results=results or None,
        training_cost=dict(facts.cost) or None,
    )
    text: str = data.to_yaml()
    return text.strip()


def push_hub(folder: Path, name: str, *, private: bool = False) -> str:
    """Upload a folder that `export_hub` wrote, as one commit; the address of the model.

    Args:
        folder: all files of it are uploaded; what is on the hub besides stays there.
        name: OWNER/NAME on the hub; the repository is made if need be.
        private: make a new repository that others do not see.
    """
    from huggingface_hub import HfApi

    if not (folder / ONNX_FOLDER / QUANTIZED_FILE).is_file() or not (folder / CARD_FILE).is_file():
        raise CheckpointError(
            f"{folder} is not a folder of `litebert export hub`; make one: `litebert export hub {folder} OUT`"
        )
    if _facts_of_card((folder / CARD_FILE).read_text(encoding="utf-8"), folder).licence is None:
        raise ConfigError(f"the card of {folder} names no licence; export it with --licence")
    api = HfApi()  # HF_ENDPOINT names another hub
    try:
        made = api.create_repo(name, private=private or None, exist_ok=True)
        api.upload_folder(repo_id=made.repo_id, folder_path=folder, commit_message="Exported with litebert")
    except Exception as error:  # the library and its HTTP client have many families of errors
        status = getattr(getattr(error, "response", None), "status_code", None)
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        advice = {401: "; log in with `hf auth login` or set HF_TOKEN", 403: "; is it yours?"}
        raise InputError(f"{name} cannot be pushed to {api.endpoint}: {reason}{advice.get(status or 0, '')}") from None
    return str(made)
