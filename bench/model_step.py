"""One training step (forward, backward, AdamW) against transformers' AlbertForPreTraining.

Same weights, same batch, 15 % of the tokens labelled, no dropout, fused AdamW for both, in one
process with interleaved repeats; medians. Both run without an attention mask, since nothing is
padded, and transformers with SDPA. Peak memory is that of separate processes.

    python bench/model_step.py                     all cases
    python bench/model_step.py --cases base --repeats 15
    python bench/model_step.py --peer-activation gelu_pytorch_tanh
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from machine import on_this_machine
from torch import Tensor, nn

from litebert.interop.names import tensor_names
from litebert.model.config import ModelConfig, preset
from litebert.model.heads import PretrainingModel

LABELLED_SHARE = 0.15
LOSS_TOLERANCE = 1e-4
LEARNING_RATE = 1e-4
GEMM_SIZE = 2048


@dataclass(frozen=True)
class Case:
    """A shape to measure, and what is aimed at."""

    preset: str
    batch: int
    length: int
    target_speedup: float
    target_gemm_share: float


CASES = {
    "small": Case("albert-small", 32, 128, target_speedup=2.3, target_gemm_share=0.65),
    "base": Case("albert-base", 8, 128, target_speedup=1.25, target_gemm_share=0.85),
}
MEMORY_PRESET, MEMORY_BATCH, MEMORY_LENGTH, MEMORY_TARGET = "albert-small", 8, 512, 0.5
MEMORY_STEPS = 3


@dataclass(frozen=True)
class Batch:
    """Random tokens without padding, with the labels in both forms."""

    ids: Tensor
    segments: Tensor
    positions: Tensor
    words: Tensor
    orders: Tensor
    labels: Tensor

    @staticmethod
    def draw(config: ModelConfig, batch: int, length: int) -> Batch:
        """Draw the same batch every time."""
        generator = torch.Generator().manual_seed(0)
        num_tokens = batch * length

        def integers(low: int, high: int, *shape: int) -> Tensor:
            return torch.randint(low, high, shape, generator=generator)

        num_labels = round(LABELLED_SHARE * num_tokens)
        positions = torch.randperm(num_tokens, generator=generator)[:num_labels].sort().values
        words = integers(5, config.vocab_size, num_labels)
        labels = torch.full((num_tokens,), -100)
        labels[positions] = words
        segments = (torch.arange(length) >= length // 2).long().repeat(batch, 1)
        return Batch(
            ids=integers(5, config.vocab_size, batch, length),
            segments=segments,
            positions=positions,
            words=words,
            orders=integers(0, 2, batch),
            labels=labels.view(batch, length),
        )


def make_ours(config: ModelConfig) -> PretrainingModel:
    return PretrainingModel(config, generator=torch.Generator().manual_seed(1)).train()


def make_theirs(config: ModelConfig, weights: dict[str, Tensor], activation: str) -> nn.Module:
    """transformers' model with the same weights."""
    from transformers import AlbertConfig, AlbertForPreTraining

    peer = AlbertForPreTraining(
        AlbertConfig(  # type: ignore[call-arg]  # it takes more than it declares
            vocab_size=config.vocab_size,
            embedding_size=config.embedding_size,
            hidden_size=config.hidden_size,
            num_hidden_layers=config.num_layers,
            num_attention_heads=config.heads,
            intermediate_size=config.ffn,
            hidden_act=activation,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            classifier_dropout_prob=0.0,
            attn_implementation="sdpa",
        )
    )
    names = tensor_names(config, "pretraining")
    peer.load_state_dict({names[k]: v.clone() for k, v in weights.items()}, strict=False)
    peer.tie_weights()
    peer.train()
    return peer


def loss_of_ours(model: nn.Module, batch: Batch) -> Tensor:
    out = model(batch.ids, None, batch.segments, batch.positions, batch.words, batch.orders)
    loss: Tensor = out.loss
    return loss


def loss_of_theirs(model: nn.Module, batch: Batch) -> Tensor:
    out = model(
        input_ids=batch.ids, token_type_ids=batch.segments, labels=batch.labels, sentence_order_label=batch.orders
    )
    loss: Tensor = out.loss
    return loss


class Stepper:
    """A model with its optimizer; one call is one training step."""

    def __init__(self, model: nn.Module, loss: Callable[[nn.Module, Batch], Tensor], batch: Batch) -> None:
        self.model, self.loss, self.batch = model, loss, batch
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, fused=True)

    def __call__(self) -> float:
        """Run a step and return its loss."""
        loss = self.loss(self.model, self.batch)
        torch.autograd.backward(loss)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.item()


def timed(function: Callable[[], float]) -> tuple[float, float]:
    """Run it; return seconds and result."""
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


class Gemm:
    """A large matrix product: the machine's rate, measured in the same run."""

    def __init__(self) -> None:
        self.a = torch.randn(GEMM_SIZE, GEMM_SIZE)
        self.b = torch.randn(GEMM_SIZE, GEMM_SIZE)
        self.out = torch.empty(GEMM_SIZE, GEMM_SIZE)

    def __call__(self) -> float:
        """Floating-point operations of one product."""
        torch.mm(self.a, self.b, out=self.out)
        return 2.0 * GEMM_SIZE**3


def step_flops(config: ModelConfig, case: Case, num_labels: int) -> float:
    """Operations in the matrix products of our step as it runs; backward is twice forward.

    Behind its attention the last block runs only at the labelled tokens and the first ones.
    """
    hidden, ffn, embedding = config.hidden_size, config.ffn, config.embedding_size
    tokens = case.batch * case.length
    rows = num_labels + case.batch
    attention = tokens * (3 * hidden * hidden + 2 * case.length * hidden)
    behind = hidden * hidden + 2 * hidden * ffn
    layers = config.num_layers * attention + ((config.num_layers - 1) * tokens + rows) * behind
    ends = tokens * embedding * hidden + num_labels * embedding * (hidden + config.vocab_size)
    return 3.0 * 2.0 * (layers + ends)


def measure(name: str, repeats: int, warmup: int, activation: str) -> dict[str, Any]:
    """Interleave the two models and the matrix product; medians."""
    case = CASES[name]
    config = preset(case.preset)
    batch = Batch.draw(config, case.batch, case.length)
    model = make_ours(config)
    ours = Stepper(model, loss_of_ours, batch)
    theirs = Stepper(make_theirs(config, model.state_dict(), activation), loss_of_theirs, batch)
    gemm = Gemm()
    seconds: dict[str, list[float]] = {"ours": [], "theirs": [], "gemm": []}
    largest_difference = 0.0
    for repeat in range(-warmup, repeats):
        our_seconds, our_loss = timed(ours)
        their_seconds, their_loss = timed(theirs)
        gemm_seconds, gemm_flops = timed(gemm)
        difference = abs(our_loss - their_loss)
        assert difference <= LOSS_TOLERANCE, f"losses differ: {our_loss} and {their_loss}"
        largest_difference = max(largest_difference, difference)
        if repeat >= 0:
            seconds["ours"].append(our_seconds)
            seconds["theirs"].append(their_seconds)
            seconds["gemm"].append(gemm_seconds)
    median = {key: statistics.median(values) for key, values in seconds.items()}
    ratios = [b / a for a, b in zip(seconds["ours"], seconds["theirs"], strict=True)]
    gemm_rate = gemm_flops / median["gemm"]
    rate = step_flops(config, case, len(batch.words)) / median["ours"]
    tokens = case.batch * case.length
    return {
        "case": name,
        **asdict(case),
        "repeats": repeats,
        "our_seconds": median["ours"],
        "their_seconds": median["theirs"],
        "our_tokens_per_second": tokens / median["ours"],
        "their_tokens_per_second": tokens / median["theirs"],
        "speedup": median["theirs"] / median["ours"],
        "speedup_of_pairs_min_max": [min(ratios), max(ratios)],
        "gemm_gflops": gemm_rate / 1e9,
        "gemm_share": rate / gemm_rate,
        "largest_loss_difference": largest_difference,
    }


def run_for_memory(whose: str, activation: str) -> None:
    """Run a few steps in this process and print its peak memory in bytes."""
    config = preset(MEMORY_PRESET)
    batch = Batch.draw(config, MEMORY_BATCH, MEMORY_LENGTH)
    if whose == "ours":
        step = Stepper(make_ours(config), loss_of_ours, batch)
    else:
        weights = make_ours(config).state_dict()
        step = Stepper(make_theirs(config, weights, activation), loss_of_theirs, batch)
    before = _peak_bytes()
    for _ in range(MEMORY_STEPS):
        step()
    print(json.dumps({"before": before, "peak": _peak_bytes()}))


def _peak_bytes() -> int:
    """Return this process's peak of resident memory.

    Not `ru_maxrss`: Linux hands the parent's peak on to a child, which would hide the child's own.
    """
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def measure_memory(activation: str, threads: int) -> dict[str, Any]:
    """Peak memory of a process that trains ours, and of one that trains theirs."""
    peaks = {}
    for whose in ("ours", "theirs"):
        command = [sys.executable, __file__, "--memory-of", whose, "--threads", str(threads)]
        command += ["--peer-activation", activation]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        peaks[whose] = json.loads(printed.splitlines()[-1])
    return {
        "case": "memory",
        "preset": MEMORY_PRESET,
        "batch": MEMORY_BATCH,
        "length": MEMORY_LENGTH,
        "our_peak_bytes": peaks["ours"]["peak"],
        "their_peak_bytes": peaks["theirs"]["peak"],
        "our_bytes_before_training": peaks["ours"]["before"],
        "their_bytes_before_training": peaks["theirs"]["before"],
        "share": peaks["ours"]["peak"] / peaks["theirs"]["peak"],
        "target_share": MEMORY_TARGET,
    }


def print_result(result: dict[str, Any]) -> None:
    if result["case"] == "memory":
        met = "met" if result["share"] <= result["target_share"] else "MISSED"
        print(
            f"memory  {result['preset']} {result['batch']} x {result['length']}: peak "
            f"{result['our_peak_bytes'] / 1e6:.0f} MB, transformers "
            f"{result['their_peak_bytes'] / 1e6:.0f} MB: {result['share']:.2f} of theirs "
            f"(target {result['target_share']:.2f}: {met})"
        )
        return
    low, high = result["speedup_of_pairs_min_max"]
    met = "met" if result["speedup"] >= result["target_speedup"] else "MISSED"
    print(
        f"{result['case']:<7} {result['preset']} {result['batch']} x {result['length']}: "
        f"{result['our_seconds']:.3f} s a step ({result['our_tokens_per_second']:.0f} tokens/s), "
        f"transformers {result['their_seconds']:.3f} s: {result['speedup']:.2f}x "
        f"(pairs {low:.2f} to {high:.2f}; target {result['target_speedup']:.2f}: {met}); "
        f"{result['gemm_share']:.0%} of {result['gemm_gflops']:.0f} GFLOP/s "
        f"(aim {result['target_gemm_share']:.0%}); "
        f"losses within {result['largest_loss_difference']:.0e}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cases", nargs="+", default=[*CASES, "memory"], choices=[*CASES, "memory"])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--peer-activation", default="gelu_new", help="hidden_act of transformers")
    parser.add_argument("--json", action="store_true", help="print JSON lines")
    parser.add_argument("--memory-of", choices=["ours", "theirs"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.memory_of:
        run_for_memory(options.memory_of, options.peer_activation)
        return
    import transformers

    print(
        f"torch {torch.__version__}, transformers {transformers.__version__} "
        f"(sdpa, {options.peer_activation}), {options.threads} threads",
        file=sys.stderr,
    )
    for name in options.cases:
        if name == "memory":
            result = measure_memory(options.peer_activation, options.threads)
        else:
            result = measure(name, options.repeats, options.warmup, options.peer_activation)
        if options.json:
            print(json.dumps(result), flush=True)
        else:
            print_result(result)


if __name__ == "__main__":
    with on_this_machine():
        main()
