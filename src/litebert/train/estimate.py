"""What training costs by formula: operations, memory, and time and traffic on a run.

Nothing here loads torch but the measurement of a machine's speed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from litebert.common.config import check_range
from litebert.common.errors import ConfigError, suggestion
from litebert.model.config import ModelConfig
from litebert.model.counts import GPU_SLICE_ELEMENTS, count_parameters

BYTES_PER_TOKEN = 4.5  # English text per token of the official vocabulary of 30,000 (Wikipedia and novels)
TOKENIZE_BYTES_PER_S = 5e6  # text that one core turns into shards per second, sentence splitting included
MASK_RATE = 0.15
MEMORY_SHARE = 0.9  # share of a device's memory that an estimate may use
DOUBLING_EFFICIENCY = 0.965
"""What remains when the number of machines doubles, besides the time to communicate: the slowest machine sets the pace.
Fitted to AWS' ALBERT-base on 1, 2, 4, 8 machines of 8 V100: 144, 75, 38, 20 hours."""
OVERLAP_SHARE = 0.5  # share of the computing time during which gradients of layers with own parameters can travel


def step_flops(model: ModelConfig, rows: int, length: int, predictions: int, layers: int | None = None) -> float:
    """Operations of forward and backward (twice the forward); a multiply-add counts as two.

    ``length`` counts padding, ``predictions`` the masked positions of the whole batch.
    """
    hidden, embedding = model.hidden_size, model.embedding_size
    blocks = (model.num_layers if layers is None else layers) * model.inner_group_num
    tokens = rows * length
    attention = 6 * hidden * hidden + 4 * length * hidden
    after_attention = 2 * hidden * hidden + 4 * hidden * model.ffn
    # After its attention the last block runs only where something is predicted.
    places = (blocks - 1) * tokens + min(tokens, predictions + rows)
    projection = 2 * embedding * hidden if model.has_projection else 0
    encoder = tokens * (blocks * attention + projection) + places * after_attention
    words = predictions * 2 * embedding * (hidden + model.vocab_size)
    return 3.0 * (encoder + words + rows * 2 * hidden * hidden)


def measured_gemm_rate(device: str = "cpu", in_bfloat16: bool = False, seconds: float = 0.3) -> float | None:
    """Operations per second of large matrix products: the practical peak.

    Only products that had the machine to themselves count, whose threads computed for nearly all of the time; None if
    there was none: a lower rate would make everything look fast.
    """
    import torch

    on_cpu = device == "cpu"
    threads = torch.get_num_threads()
    size = 1024 * max(1, round(math.sqrt(threads / 4))) if on_cpu else 4096
    dtype = torch.bfloat16 if in_bfloat16 else torch.float32
    left, right = torch.randn(2, size, size, device=device, dtype=dtype)
    best, started = math.inf, time.perf_counter()
    while time.perf_counter() - started < seconds:
        before, computed_before = time.perf_counter(), time.process_time()
        (left @ right)[0, 0].item()  # waits for a GPU
        took, computed = time.perf_counter() - before, time.process_time() - computed_before
        if not on_cpu or computed >= 0.85 * threads * took:
            best = min(best, took)
    return None if math.isinf(best) else 2.0 * size**3 / best


@dataclass(frozen=True)
class Memory:
    """Bytes on one device in a step with AdamW or LAMB; activations are an estimate."""

    weights: int
    gradients: int
    optimizer: int
    activations: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.gradients + self.optimizer + self.activations

    @classmethod
    def of(
        cls,
        model: ModelConfig,
        parameters: int,
        tokens: int,
        predictions: int,
        *,
        shards: int = 1,
        activation_bytes: int = 4,
        recompute: bool = False,
        slice_elements: int | None = None,
    ) -> Memory:
        """Estimate a step on a micro-batch of ``tokens``, padding included.

        Args:
            shards: over how many devices weights, gradients and optimizer state are spread.
            recompute: only the layers' inputs are kept (activation checkpointing).
            slice_elements: logits that the loss holds at a time; None: all of them.
        """
        blocks = model.num_layers * model.inner_group_num
        # Kept for the backward pass of a block: its input, q, k, v, the mixture and its projection, two sums and two
        # norms (10 H), and the feed-forward before and after the activation.
        block = tokens * (10 * model.hidden_size + 2 * model.ffn) * activation_bytes
        kept = tokens * model.hidden_size * activation_bytes
        layers = blocks * kept + block if recompute else blocks * block
        logits = predictions * model.vocab_size
        if slice_elements is not None:
            logits = min(logits, max(slice_elements, model.vocab_size))
        words = 2 * logits * 4  # scores and their gradient
        share = -(-4 * parameters // shards)
        # A block that every layer uses is gathered once and stays for the whole step, and so do its gradients until
        # they are scattered: sharding saves the optimizer's state.
        gathered = 4 * parameters if shards > 1 else 0
        return cls(share + gathered, share + gathered, 2 * share, layers + words)


@dataclass(frozen=True)
class Device:
    """A kind of GPU as a cluster has it."""

    peak_tflops: float  # dense, half precision
    memory_gb: float
    inside_gb_s: float  # between devices of one machine, each way
    network_gbit_s: float  # of one machine of 8
    efficiency: float  # share of the peak that such training reaches


DEVICES: Mapping[str, Device] = {
    # The V100's share is what AWS reached with batch 4,096 x 512 (0.24 steps/s on eight).
    "v100": Device(125, 32, 120, 100, 0.275),
    "a100": Device(312, 80, 250, 400, 0.40),
    "h100": Device(989, 80, 400, 3200, 0.35),
    "l4": Device(121, 24, 12, 50, 0.35),
    "rtx4090": Device(165, 24, 12, 25, 0.40),
}
"""Public peak figures; the efficiencies other than the V100's are assumptions: measure yours."""


@dataclass(frozen=True)
class ClusterRun:
    """A pretraining on machines of GPUs."""

    gpu: str = "a100"
    """kind of GPU: v100, a100, h100, l4, rtx4090"""
    gpus_per_machine: int = 8
    """GPUs that are connected without the network"""
    network_gbit: float | None = None
    """network of one machine in Gbit/s; unless set, usual for the GPU"""
    efficiency: float | None = None
    """share of the GPU's peak that training reaches; unless set, a typical one"""
    batch_size: int = 4096
    """examples per step"""
    length: int = 512
    """tokens per example"""
    steps: int = 125_000
    """steps of the run"""
    parallel: Literal["ddp", "fsdp"] = "ddp"
    """ddp, or fsdp (weights, gradients and optimizer state sharded)"""
    text_gb: float | None = None
    """size of the raw text in GB, for epochs, disk and preparation time"""

    def __post_init__(self) -> None:
        if self.gpu not in DEVICES:
            near = suggestion(self.gpu, DEVICES)
            raise ConfigError(f"unknown GPU '{self.gpu}': use one of {', '.join(DEVICES)}.{near}")
        sizes = ("gpus_per_machine", "network_gbit", "batch_size", "length", "steps", "text_gb")
        check_range(self, "more than 0", *sizes)
        check_range(self, "more than 0", "efficiency", most=1)


@dataclass(frozen=True)
class TrainingEstimate:
    """A pretraining on a cluster in seconds, bytes and operations."""

    parameters: int
    flops_per_step: float
    compute_s: float  # per step
    communication_s: float  # per step, that nothing hides
    step_s: float
    hours: float
    gpu_hours: float
    micro_batch_size: int  # examples on a device at once
    accumulation: int  # micro-batches per device and step
    recompute: bool  # whether activations must be recomputed to fit
    memory: Memory  # per device
    traffic_bytes: float  # sent by each device per step
    checkpoint_bytes: int
    tokens: int
    epochs: float | None  # passes over the text; like what follows, None if its size is not known
    shard_bytes: float | None
    prepare_core_hours: float | None


def estimate_training(model: ModelConfig, gpus: int, run: ClusterRun) -> TrainingEstimate:
    """Estimate a pretraining run on a number of GPUs."""
    if gpus < 1:
        raise ConfigError(f"gpus is {gpus}: use 1 or more.")
    parameters = count_parameters(model).total
    per_device = -(-run.batch_size // gpus)  # of the device that gets the most
    micro, recompute, memory = _micro_batch(model, parameters, gpus, per_device, run)
    predictions = round(run.batch_size * run.length * MASK_RATE)
    flops = step_flops(model, run.batch_size, run.length, predictions)
    # All wait for the device with the most examples, and examples are not cut.
    busy_share = run.batch_size / (per_device * gpus)
    device, machines = DEVICES[run.gpu], -(-gpus // run.gpus_per_machine)
    pace = (run.efficiency or device.efficiency) * DOUBLING_EFFICIENCY ** math.log2(machines)
    flops_per_s = gpus * device.peak_tflops * 1e12 * pace
    compute_s = flops * (4 / 3 if recompute else 1.0) / (flops_per_s * busy_share)
    # Around a ring of GPUs, at the pace of its slowest link.
    traffic, bytes_per_s, hop_s = traffic_bytes(parameters, gpus), device.inside_gb_s * 1e9, 5e-6
    if machines > 1:
        gbit = run.network_gbit or device.network_gbit_s
        bytes_per_s, hop_s = min(gbit * 1e9 / 8, bytes_per_s), 20e-6
    transfer_s = traffic / bytes_per_s + 2 * hop_s * math.log2(gpus)
    # A block that all layers share has its gradient only when the backward pass is over, so nothing hides the time to
    # send it; but it is as small as one layer.
    hidden_s = 0.0 if model.sharing == "all" else OVERLAP_SHARE * compute_s
    communication_s = max(0.0, transfer_s - hidden_s)
    step_s = compute_s + communication_s
    hours = step_s * run.steps / 3600
    tokens = run.steps * run.batch_size * run.length
    text = None if run.text_gb is None else run.text_gb * 1e9
    return TrainingEstimate(
        parameters=parameters,
        flops_per_step=flops,
        compute_s=compute_s,
        communication_s=communication_s,
        step_s=step_s,
        hours=hours,
        gpu_hours=hours * gpus,
        micro_batch_size=micro,
        accumulation=-(-per_device // micro),
        recompute=recompute,
        memory=memory,
        traffic_bytes=traffic,
        checkpoint_bytes=12 * parameters,
        tokens=tokens,
        epochs=None if text is None else tokens / (text / BYTES_PER_TOKEN),
        shard_bytes=None if text is None else 2 * text / BYTES_PER_TOKEN,
        prepare_core_hours=None if text is None else text / TOKENIZE_BYTES_PER_S / 3600,
    )


def traffic_bytes(parameters: int, processes: int) -> float:
    """Bytes that each process sends in a step, by ring algorithms in float32.

    DDP: an all-reduce of the gradients. FSDP: an all-gather of the weights and a reduce-scatter of the gradients, which
    together send the same. With sharing, each shared tensor counts once.
    """
    return 2 * (processes - 1) / processes * 4 * parameters


def _micro_batch(
    model: ModelConfig, parameters: int, gpus: int, per_device: int, run: ClusterRun
) -> tuple[int, bool, Memory]:
    """The largest power of two of examples that fits on a device, without recomputation if any."""
    memory_gb, shards = DEVICES[run.gpu].memory_gb, gpus if run.parallel == "fsdp" else 1
    for recompute in (False, True):
        for power in reversed(range(per_device.bit_length())):
            tokens = run.length << power
            memory = Memory.of(
                model,
                parameters,
                tokens,
                round(tokens * MASK_RATE),
                shards=shards,
                activation_bytes=2,
                recompute=recompute,
                slice_elements=GPU_SLICE_ELEMENTS,
            )
            if memory.total <= MEMORY_SHARE * memory_gb * 1e9:
                return 1 << power, recompute, memory
    raise ConfigError(
        f"one example of {run.length} tokens needs {memory.total / 1e9:.0f} GB, but a {run.gpu} has {memory_gb:g} GB "
        "and this does not fit: use --parallel fsdp, more GPUs or shorter examples."
    )
