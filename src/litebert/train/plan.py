"""Time, memory and traffic of a training on a cluster, by formula, before it is paid for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from litebert.common.errors import ConfigError, suggestion
from litebert.model.config import ModelConfig
from litebert.model.counts import GPU_PIECE_ELEMENTS, count_parameters
from litebert.train.costs import Memory, step_flops

Strategy = Literal["ddp", "fsdp"]

BYTES_PER_TOKEN = 4.5
"""English text per piece of the official 30,000-piece vocabulary (Wikipedia and novels)."""
TOKENIZE_BYTES_PER_S = 5e6
"""Text that one core turns into shards per second, sentence splitting included."""
MEMORY_SHARE = 0.9
"""Part of a device's memory that may be planned with."""
DOUBLING_EFFICIENCY = 0.965
"""What remains when the number of machines doubles, besides the time to communicate: the slowest
machine sets the pace. Fitted to AWS' ALBERT-base on 1, 2, 4, 8 machines of 8 V100: 144, 75, 38, 20
hours."""
OVERLAP_SHARE = 0.5
"""Part of the computing time behind which gradients of layers with own parameters can travel."""


@dataclass(frozen=True)
class Device:
    """A kind of GPU as a cluster has it.

    >>> DEVICES["a100"].memory_gb
    80
    """

    peak_tflops: float
    """dense half-precision peak"""
    memory_gb: float
    inside_gb_s: float
    """bandwidth between devices of one machine, each way"""
    network_gbit_s: float
    """network of one machine of 8"""
    efficiency: float
    """share of the peak that such training reaches"""


DEVICES: Mapping[str, Device] = MappingProxyType(
    {
        # The V100's share is what AWS reached with batch 4,096 x 512 (0.24 steps/s on eight).
        "v100": Device(125, 32, 120, 100, 0.275),
        "a100": Device(312, 80, 250, 400, 0.40),
        "h100": Device(989, 80, 400, 3200, 0.35),
        "l4": Device(121, 24, 12, 50, 0.35),
        "rtx4090": Device(165, 24, 12, 25, 0.40),
    }
)
"""Public peak figures; the efficiencies other than the V100's are assumptions: measure yours."""


@dataclass(frozen=True)
class Cluster:
    """Devices and how they are connected.

    >>> Cluster(gpus=16).machines
    2
    """

    gpus: int = 8
    gpu: str = "a100"
    gpus_per_machine: int = 8
    network_gbit_s: float | None = None
    """network of one machine; default: usual for the GPU"""
    efficiency: float | None = None
    """share of the peak that training reaches; default: see ``DEVICES``"""

    def __post_init__(self) -> None:
        if self.gpu not in DEVICES:
            raise ConfigError(
                f"unknown GPU '{self.gpu}': use one of {', '.join(DEVICES)}."
                f"{suggestion(self.gpu, DEVICES)}"
            )
        _check_positive("gpus", self.gpus)
        _check_positive("gpus per machine", self.gpus_per_machine)
        _check_positive("network Gbit/s", self.network_gbit_s)
        _check_positive("efficiency", self.efficiency)
        if self.efficiency is not None and self.efficiency > 1.0:
            raise ConfigError(
                f"efficiency is {self.efficiency:g}: it is a share of the GPU's peak, at most 1."
            )

    @property
    def device(self) -> Device:
        """The kind of GPU."""
        return DEVICES[self.gpu]

    @property
    def machines(self) -> int:
        """Machines that are needed."""
        return -(-self.gpus // self.gpus_per_machine)

    @property
    def flops_per_s(self) -> float:
        """Operations per second of all devices in such training."""
        share = self.device.efficiency if self.efficiency is None else self.efficiency
        doublings = math.log2(self.machines)
        pace = share * math.pow(DOUBLING_EFFICIENCY, doublings)
        return self.gpus * self.device.peak_tflops * 1e12 * pace

    @property
    def bytes_per_s(self) -> float:
        """Bandwidth of the slowest link in a ring over all devices."""
        if self.machines == 1:
            return self.device.inside_gb_s * 1e9
        network = self.network_gbit_s
        if network is None:
            network = self.device.network_gbit_s
        return min(network * 1e9 / 8, self.device.inside_gb_s * 1e9)

    @property
    def latency_s(self) -> float:
        """Latency of one collective."""
        per_hop = 5e-6 if self.machines == 1 else 20e-6
        return 2 * per_hop * math.log2(max(2, self.gpus))


@dataclass(frozen=True)
class Workload:
    """What is to be trained on.

    >>> Workload().tokens
    262144000000
    """

    batch_size: int = 4096
    length: int = 512
    steps: int = 125_000
    mask_rate: float = 0.15
    text_gb: float | None = None
    """raw text in GB, for epochs and preparation"""

    def __post_init__(self) -> None:
        _check_positive("batch size", self.batch_size)
        _check_positive("length", self.length)
        _check_positive("steps", self.steps)
        _check_positive("GB of text", self.text_gb)

    @property
    def tokens(self) -> int:
        """Tokens of the whole run."""
        return self.steps * self.batch_size * self.length


@dataclass(frozen=True)
class Plan:
    """The answer: seconds, bytes and operations.

    Example:
        >>> plan_training(preset("albert-base"), Cluster(gpus=8, gpu="v100")).hours
        144.0
    """

    parameters: int
    flops_per_step: float
    compute_s: float
    """per step"""
    communication_s: float
    """per step, that nothing hides"""
    step_s: float
    hours: float
    gpu_hours: float
    micro_batch_size: int
    """examples on a device at once"""
    accumulation: int
    """micro-batches per device and step"""
    recompute: bool
    """whether activations must be recomputed to fit"""
    memory: Memory
    """per device"""
    traffic_bytes: float
    """sent by each device per step"""
    checkpoint_bytes: int
    tokens: int
    epochs: float | None
    """passes over the text, if its size is known"""
    shard_bytes: float | None
    """disk for the tokens"""
    prepare_core_hours: float | None
    """one core's time to make them"""


def plan_training(
    model: ModelConfig,
    cluster: Cluster,
    workload: Workload | None = None,
    strategy: Strategy = "ddp",
) -> Plan:
    """Estimate a pretraining run."""
    workload = Workload() if workload is None else workload
    parameters = count_parameters(model).total
    micro, recompute, memory = _micro_batch(model, parameters, cluster, workload, strategy)
    per_device = _examples_per_device(cluster, workload)
    accumulation = -(-per_device // micro)
    predictions = round(workload.batch_size * workload.length * workload.mask_rate)
    flops = step_flops(model, workload.batch_size, workload.length, predictions)
    # All wait for the device with the most examples, and examples are not cut: devices beyond one
    # for each have nothing to do.
    busy_share = workload.batch_size / (per_device * cluster.gpus)
    compute_s = flops * (4 / 3 if recompute else 1.0) / (cluster.flops_per_s * busy_share)
    traffic = traffic_bytes(parameters, cluster.gpus, strategy)
    transfer_s = traffic / cluster.bytes_per_s + cluster.latency_s
    if cluster.gpus == 1:
        transfer_s = 0.0
    # A block that all layers share has its gradient only when the backward pass is over, so
    # nothing hides its journey; but it is as small as one layer.
    hidden = 0.0 if model.sharing == "all" else OVERLAP_SHARE * compute_s
    communication_s = max(0.0, transfer_s - hidden)
    step_s = compute_s + communication_s
    hours = step_s * workload.steps / 3600
    text = None if workload.text_gb is None else workload.text_gb * 1e9
    return Plan(
        parameters=parameters,
        flops_per_step=flops,
        compute_s=compute_s,
        communication_s=communication_s,
        step_s=step_s,
        hours=hours,
        gpu_hours=hours * cluster.gpus,
        micro_batch_size=micro,
        accumulation=accumulation,
        recompute=recompute,
        memory=memory,
        traffic_bytes=traffic,
        checkpoint_bytes=12 * parameters,
        tokens=workload.tokens,
        epochs=None if text is None else workload.tokens / (text / BYTES_PER_TOKEN),
        shard_bytes=None if text is None else 2 * text / BYTES_PER_TOKEN,
        prepare_core_hours=None if text is None else text / TOKENIZE_BYTES_PER_S / 3600,
    )


def traffic_bytes(parameters: int, processes: int, strategy: Strategy) -> float:
    """Bytes that each process sends in a step, by ring algorithms in float32.

    DDP: an all-reduce of the gradients. FSDP: an all-gather of the weights and a reduce-scatter of
    the gradients, which together send the same. With sharing, each shared tensor counts once.

    >>> round(traffic_bytes(335_691_058, 8, "ddp") / traffic_bytes(17_847_474, 8, "ddp"), 1)
    18.8
    """
    share = (processes - 1) / processes
    payload = 4 * parameters
    return 2 * share * payload


def _examples_per_device(cluster: Cluster, workload: Workload) -> int:
    """Of the device that gets the most."""
    return -(-workload.batch_size // cluster.gpus)


def _check_positive(name: str, value: float | None) -> None:
    if value is not None and value <= 0:
        raise ConfigError(f"{name}: {value:g} makes no plan; use more than 0.")


def _micro_batch(
    model: ModelConfig, parameters: int, cluster: Cluster, workload: Workload, strategy: Strategy
) -> tuple[int, bool, Memory]:
    """The largest power of two of examples that fits on a device, without recomputation if any."""
    room = MEMORY_SHARE * cluster.device.memory_gb * 1e9
    shards = cluster.gpus if strategy == "fsdp" else 1
    per_device = _examples_per_device(cluster, workload)
    for recompute in (False, True):
        best: tuple[int, bool, Memory] | None = None
        micro = 1
        while micro <= per_device:
            tokens = micro * workload.length
            memory = Memory.of(
                model,
                parameters,
                tokens,
                round(tokens * workload.mask_rate),
                shards=shards,
                activation_bytes=2,
                recompute=recompute,
                piece_elements=GPU_PIECE_ELEMENTS,
            )
            if memory.total > room:
                break
            best = (micro, recompute, memory)
            micro *= 2
        if best is not None:
            return best
    raise ConfigError(
        f"one example of {workload.length} tokens needs {memory.total / 1e9:.0f} GB, but a "
        f"{cluster.gpu} has {cluster.device.memory_gb:g} GB and this does not fit: use --parallel "
        "fsdp, more GPUs or shorter examples."
    )
