"""Wrap a single-device model for many processes (DDP, FSDP2), from outside."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager as ContextManager
from contextlib import contextmanager, nullcontext
from typing import Any, cast

import torch
import torch.distributed as torch_dist
from torch import Tensor, nn
from torch._C._distributed_c10d import GradBucket
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from litebert.dist.runtime import Parallel, Process


class Replica:
    """A model alone on its process; subclasses say what the processes of a run do together.

    Gradients are **summed** over processes, never averaged: the caller divides each loss by a count over all of them,
    so that any split of a batch gives the same gradient.
    """

    def __init__(self, model: nn.Module, process: Process) -> None:
        self.model, self.process = model, process
        self.module_for_training = model

    def micro_batch(self, *, is_last: bool) -> ContextManager[None]:
        """Around forward and backward of one micro-batch; only the last one synchronises."""
        return nullcontext()

    @contextmanager
    def evaluation(self) -> Iterator[nn.Module]:
        """The model to call without gradients."""
        was_training = self.model.training
        self.model.eval()
        try:
            with torch.no_grad():
                yield self.model
        finally:
            self.model.train(was_training)

    def rehearse(self, loss: Callable[[], Tensor]) -> None:
        """Let the wrapper settle before the first step; the gradients are thrown away."""

    def bytes_per_step(self) -> int:
        """Bytes each process hands to collectives in one step, whatever the number of processes."""
        return 0


class DdpReplica(Replica):
    """A full copy on each process; gradients are all-reduced once per step."""

    def __init__(self, model: nn.Module, process: Process, *, some_unused: bool = False) -> None:
        super().__init__(model, process)
        ids = [process.device.index] if process.device.type == "cuda" else None
        self.ddp = DistributedDataParallel(
            model, device_ids=ids, gradient_as_bucket_view=True, find_unused_parameters=some_unused
        )
        # DDP's hook holds this and not the replica, which holds DDP: no collector sees such a
        # circle, and models and process groups would stay in memory after their training.
        self._bytes: Counter[str] = Counter()
        self.ddp.register_comm_hook(self._bytes, _sum_gradients)
        self.module_for_training = self.ddp

    def micro_batch(self, *, is_last: bool) -> ContextManager[None]:
        """Leave the all-reduce to the last micro-batch."""
        self._bytes.clear()
        return nullcontext() if is_last else cast("ContextManager[None]", self.ddp.no_sync())

    def rehearse(self, loss: Callable[[], Tensor]) -> None:
        """One backward pass, after which DDP re-orders its buckets, and so additions of more than two processes.

        Done before the first step, a resumed run adds up as the first did.
        """
        torch.autograd.backward(loss())
        self.model.zero_grad(set_to_none=True)

    def bytes_per_step(self) -> int:
        """Counted in the last step's all-reduce."""
        return self._bytes["sent"]


class FsdpReplica(Replica):
    """Parameters, gradients and optimizer state sharded over all processes (FSDP2).

    The whole model is one unit: a block that all layers share is gathered once per step and not once per use.
    """

    def __init__(self, model: nn.Module, process: Process) -> None:
        super().__init__(model, process)
        self.num_bytes = sum(p.nbytes for p in model.parameters())
        mesh = init_device_mesh(process.device.type, (process.world_size,))
        fully_shard(model, mesh=mesh, reshard_after_forward=False)
        self.sharded = cast(FSDPModule, model)
        # Sum: the losses carry the divisor. gloo cannot pre-multiply, so divide by 1 afterwards.
        self.sharded.set_gradient_divide_factor(1.0)
        self.sharded.set_force_sum_reduction_for_comms(True)

    @contextmanager
    def micro_batch(self, *, is_last: bool) -> Iterator[None]:
        """Keep weights gathered and gradients local until the last micro-batch."""
        self.sharded.set_requires_gradient_sync(is_last)
        self.sharded.set_reshard_after_backward(is_last)
        yield

    @contextmanager
    def evaluation(self) -> Iterator[nn.Module]:
        """Gather the weights, and give them back at the end."""
        with super().evaluation() as model:
            # Here, once, and not in the first call: processes may have unequally many batches.
            self.sharded.unshard()
            try:
                yield model
            finally:
                self.sharded.reshard()

    def bytes_per_step(self) -> int:
        """One all-gather of the weights and one reduce-scatter of the gradients."""
        return 2 * self.num_bytes


def parallelize(model: nn.Module, strategy: Parallel, process: Process, *, some_unused: bool = False) -> Replica:
    """Wrap a model, already on its device; ``some_unused``: DDP must look for parameters that do not run in a step."""
    if process.world_size == 1:
        return Replica(model, process)
    if strategy == "fsdp":
        return FsdpReplica(model, process)
    return DdpReplica(model, process, some_unused=some_unused)


def whole(tensor: Tensor) -> Tensor:
    """The full tensor, gathered if it is sharded (a collective call then), detached."""
    tensor = tensor.detach()
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def copy_into(target: Tensor, source: Tensor) -> None:
    """Copy a full tensor into a parameter or state, of which this process may hold a shard."""
    with torch.no_grad():
        if isinstance(target, DTensor):
            source = distribute_tensor(source.to(target.device), target.device_mesh, target.placements)
        target.copy_(source)


def _sum_gradients(state: object, bucket: GradBucket) -> Future[Tensor]:
    """DDP's communication hook: a plain sum, and a count of the bytes."""
    # DDP compares the annotations themselves, so this file does without postponed ones.
    buffer = bucket.buffer()
    cast(Counter[str], state)["sent"] += buffer.nbytes
    future: Future[Any] = torch_dist.all_reduce(buffer, async_op=True).get_future()
    return future.then(lambda done: done.value()[0])
