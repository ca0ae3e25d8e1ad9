"""A model in a process group of one: what is left of it after its training."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest
import torch
import torch.distributed as torch_dist
from torch import nn
from torch._C._distributed_c10d import HashStore

from litebert.dist.replica import DdpReplica
from litebert.dist.runtime import Process


@pytest.fixture
def process() -> Iterator[Process]:
    torch_dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    yield Process(0, 1, torch.device("cpu"))
    torch_dist.destroy_process_group()


def train_step(replica: DdpReplica) -> None:
    with replica.micro_batch(is_last=True):
        replica.module_for_training(torch.ones(2, 4)).sum().backward()


def test_ddp_counts_the_bytes_of_one_step(process: Process) -> None:
    replica = DdpReplica(nn.Linear(4, 3), process)
    train_step(replica)
    train_step(replica)
    assert replica.bytes_per_step() == (4 * 3 + 3) * 4


def test_ddp_leaves_nothing_in_memory(process: Process) -> None:
    replica = DdpReplica(nn.Linear(4, 3), process)
    train_step(replica)
    model = weakref.ref(replica.model)
    del replica
    gc.collect()
    assert model() is None
