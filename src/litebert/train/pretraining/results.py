"""What pretraining leaves: the model folder, what the model fills in, any checkpoint as a model."""

from __future__ import annotations

from pathlib import Path

import torch

from litebert.common.config import from_dict
from litebert.common.errors import CheckpointError, blame
from litebert.common.files import check_free, write_json
from litebert.common.runs import MODEL_FOLDER, SAMPLES_FILE, RunFolder
from litebert.data.corpus.manifest import Manifest
from litebert.dist.replica import Replica
from litebert.interop.card import model_card, pretraining_section
from litebert.interop.hf import save_model
from litebert.model.config import ModelConfig
from litebert.model.counts import check_memory
from litebert.model.heads import PretrainingModel
from litebert.model.sharing import plan_of
from litebert.text.tokenizer import has_tokenizer
from litebert.train import checkpoint
from litebert.train.pretraining.evaluate import DevSet, RunState, Scores
from litebert.train.pretraining.initial import deepen, new_sets
from litebert.train.pretraining.setup import Corpora

NUM_SAMPLES = 8
NUM_CANDIDATES = 5
_CONTEXT_TOKENS = 24


def write_results(
    run: Path, replica: Replica, corpora: Corpora, dev: DevSet, state: RunState, scores: Scores | None
) -> Path:
    """Write ``model/`` and ``samples.json`` into the run folder; the path of the model."""
    weights, shape = checkpoint.model_tensors(replica.model), replica.model.config
    assert isinstance(shape, ModelConfig), "every model carries its configuration"
    folder = run / MODEL_FOLDER

    def write() -> None:
        model = PretrainingModel(shape)
        model.load_state_dict(weights)
        card = pretraining_card(shape, corpora, state, scores, f"{run.resolve().name}/{folder.name}")
        save_model(model.eval(), folder, corpora.tokenizer_folder, card, replace=True)
        if dev.has_documents:
            write_json(run / SAMPLES_FILE, {"fill_mask": fill_mask_samples(model, corpora, dev)})

    replica.process.on_main(write)
    return folder


def pretraining_card(shape: ModelConfig, corpora: Corpora, state: RunState, scores: Scores | None, name: str) -> str:
    """The card of a pretrained model: data, language, length of the run, and what it learned."""
    data = [
        f"`{shards.folder.resolve().name}`: {shards.num_documents:,} documents, {shards.num_tokens:,} tokens"
        for shards, _ in corpora.train
    ]
    settings = [Manifest.read(shards.folder).settings for shards, _ in corpora.train]
    languages = list(dict.fromkeys(s["language"] for s in settings if s.get("language")))
    rows: dict[str, object] = {"data": "; ".join(data)}
    if languages:
        rows["language"] = ", ".join(languages)
    rows |= {"steps": f"{state.step:,}", "tokens seen": f"{state.tokens:,}"}
    rows["dev loss"] = "not measured: there were no dev documents"
    if scores is not None:
        rows["dev loss"] = (
            f"{scores.mlm_loss:.3f} nats, {scores.mlm_accuracy:.1%} of the words right; at masks "
            f"{scores.masked_loss:.3f} (word frequencies alone {scores.unigram_loss:.3f})"
        )
    if scores is not None and scores.sop_accuracy is not None:
        rows["dev sentence order"] = f"{scores.sop_accuracy:.1%} right"
    return model_card(shape, "pretraining", name, pretraining_section(rows), languages)


def fill_mask_samples(model: PretrainingModel, corpora: Corpora, dev: DevSet) -> list[dict[str, object]]:
    """Stretches of dev text with one word hidden, and what the model would put there.

    Each is ``{"text": "... [MASK] ...", "answer": "word", "candidates": [["word", 0.31], ...]}``.
    """
    batch, tokenizer = dev.batches(dev.word_task, NUM_SAMPLES)[0], corpora.tokenizer
    originals, width = batch.originals(), batch.input_ids.shape[1]
    samples: list[dict[str, object]] = []
    for row, length in enumerate(batch.lengths[:NUM_SAMPLES]):
        ids = torch.from_numpy(originals[row, :length])
        segments = torch.from_numpy(batch.token_type_ids[row, :length])
        places = batch.masked_positions[batch.masked_positions // width == row] % width
        places = [place for place in places if tokenizer.spell(int(ids[place]))[0]]
        if not places:
            continue
        place = int(places[len(places) // 2])
        answer = tokenizer.spell(int(ids[place]))[1]
        ids[place] = tokenizer.mask_id
        with torch.no_grad():
            logits = model(ids[None], None, segments[None], torch.tensor([place])).mlm_logits_MV
        best = torch.softmax(logits[0], -1).topk(NUM_CANDIDATES)
        before = tokenizer.decode(ids[max(1, place - _CONTEXT_TOKENS) : place].tolist())
        after = tokenizer.decode(ids[place + 1 : place + 1 + _CONTEXT_TOKENS].tolist())
        candidates = [
            [tokenizer.spell(int(i))[1], round(float(p), 4)] for p, i in zip(best.values, best.indices, strict=True)
        ]
        text = f"{before} [MASK] {after}".strip()
        samples.append({"text": text, "answer": answer, "candidates": candidates})
    return samples


def export_checkpoint(run: Path, out: Path, step: str = "best") -> int:
    """Write a checkpoint (best, last or a step) as a new model folder; return its step."""
    check_free(out)
    settings, folder = RunFolder.open(run).section("config"), run / "checkpoints"
    chosen = checkpoint.verify(folder / f"step-{_find_step(folder, step)}")
    with blame(chosen.path, CheckpointError):
        identity = chosen.state["identity"].items()
        shape = {key.removeprefix("model."): value for key, value in identity if key.startswith("model.")}
    config = from_dict(ModelConfig, shape, str(chosen.path))
    check_memory(config)
    model = PretrainingModel(config)
    checkpoint.load_model_tensors(model, checkpoint.finished_tensors(chosen))
    depth = from_dict(RunState, chosen.state.get("run", {}), str(chosen.path)).depth
    if 0 < depth < config.num_layers:  # later layers begin as copies
        deepen(model, (), new_sets(plan_of(config), depth, config.num_layers), {})
    about = {"run": f"`{run.resolve().name}`", "weights of step": f"{chosen.step:,}"}
    card = model_card(config, "pretraining", out.name, pretraining_section(about))
    # That of the run's shards, or of the model folder if the shards are gone.
    places = [Path(str(settings.get("data"))) / "tokenizer", run / "model"]
    tokenizer = next(filter(has_tokenizer, places), None)
    if tokenizer is None:
        raise CheckpointError(
            f"the tokenizer of {run} is in neither {places[0]} nor {places[1]}: put the shards back where they were"
        )
    save_model(model.eval(), out, tokenizer, card)
    return chosen.step


def _find_step(folder: Path, wanted: str) -> int:
    """The step that is asked for; the best one by the latest checkpoint that can be read."""
    steps = checkpoint.steps_in(folder)
    if not steps:
        raise CheckpointError(f"{folder} holds no checkpoints: is it a pretraining run?")
    if wanted == "last":
        return steps[-1]
    if wanted != "best":
        if not wanted.isdecimal() or int(wanted) not in steps:
            known = ", ".join(map(str, steps))
            raise CheckpointError(f"{folder} has no checkpoint of step {wanted}: choose best, last or one of {known}")
        return int(wanted)
    for step in reversed(steps):
        try:
            found = checkpoint.read(folder / f"step-{step}").state.get("run", {})
        except CheckpointError:
            continue
        best = from_dict(RunState, found, str(folder)).best_step
        return step if best is None else best
    raise CheckpointError(f"none of the {len(steps)} checkpoints in {folder} can be read")
