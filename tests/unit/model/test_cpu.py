"""What runs faster on a CPU gives torch's numbers: GELU, bfloat16 attention, linear maps."""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import sys
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from litebert.model import cpu
from litebert.model.config import ModelConfig
from litebert.model.cpu import PackedLinear, gelu_tanh, has_onednn, in_slices, linear
from litebert.model.encoder import Encoder
from litebert.model.layers import eager_attention, packed

CONFIG = ModelConfig(vocab_size=50, hidden_size=64, num_heads=2, num_layers=3, embedding_size=16)
IDS = torch.arange(14).view(2, 7)

needs_onednn = pytest.mark.skipif(not has_onednn(), reason="needs oneDNN on x86")


@pytest.fixture(name="encoder")
def _encoder() -> Encoder:
    return Encoder(CONFIG, generator=torch.Generator().manual_seed(0)).eval()


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices of 10 elements, so that small tensors need several and a shorter last one."""
    monkeypatch.setattr(cpu, "_SLICE_ELEMENTS", 10)


@pytest.mark.usefixtures("small_slices")
def test_value_and_gradient_equal_torch_over_the_whole_range() -> None:
    x = torch.cat((torch.linspace(-12, 12, 4001), torch.tensor([-1e4, -100.0, 0.0, 100.0, 1e4])))
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    grad = torch.randn(x.shape, generator=torch.Generator().manual_seed(0))
    y_ours, y_theirs = gelu_tanh(ours), F.gelu(theirs, approximate="tanh")
    torch.testing.assert_close(y_ours, y_theirs, rtol=2e-6, atol=1e-6)
    torch.autograd.backward(y_ours, grad)
    torch.autograd.backward(y_theirs, grad)
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=2e-6, atol=1e-6)


@pytest.mark.usefixtures("small_slices")
def test_gradient_is_the_derivative() -> None:
    x = torch.randn(3, 7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(gelu_tanh, x)


def test_any_layout_and_size() -> None:
    x = torch.randn(6, 5).t()
    torch.testing.assert_close(gelu_tanh(x), F.gelu(x, approximate="tanh"))
    assert gelu_tanh(torch.empty(0, 4)).shape == (0, 4)


@pytest.mark.parametrize("masked", [False, True])
def test_attention_in_slices_equals_the_fused_kernel_with_gradients(
    monkeypatch: pytest.MonkeyPatch, masked: bool
) -> None:
    monkeypatch.setattr(cpu, "_SCORES_AT_A_TIME", 2 * 2 * 7 * 7)  # two texts of three, then one
    mask = torch.ones(3, 1, 1, 7, dtype=torch.bool)
    mask[1, ..., 4:] = False
    inputs = [torch.randn(3, 2, 7, 8, dtype=torch.float64) for _ in range(3)]
    found = []
    for attend in (F.scaled_dot_product_attention, partial(in_slices, eager_attention)):
        query, key, value = leaves = [x.clone().requires_grad_() for x in inputs]
        mixed = attend(query, key, value, mask if masked else None, 0.0)
        torch.autograd.backward(mixed.square().sum())
        found.append([mixed, *(x.grad for x in leaves)])
    torch.testing.assert_close(found[0], found[1])


def test_bfloat16_training_is_close_to_float32(encoder: Encoder) -> None:
    """Attention takes another way there; gradients differ by what bfloat16 rounds away."""
    gradients = []
    for narrow in (False, True):
        encoder.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
            states = encoder(IDS, torch.ones_like(IDS)).sequence_BSH
            pooled = encoder.pool_first(states[:, 0])
        torch.autograd.backward(pooled.float().mul(torch.arange(64)).sum())
        gradients.append(torch.cat([p.grad.flatten() for p in encoder.parameters()]))  # type: ignore[union-attr]
    wide, narrow_ones = gradients
    assert F.cosine_similarity(wide, narrow_ones, dim=0) > 0.999


def test_half_precision_goes_through_torch() -> None:
    x = torch.randn(8).bfloat16()
    assert torch.equal(gelu_tanh(x), F.gelu(x, approximate="tanh"))


@needs_onednn
@pytest.mark.parametrize("shape", [(1, 48), (7, 48), (3, 130, 48), (0, 48)])
@pytest.mark.parametrize("has_bias", [True, False])
def test_linear_and_its_gradients_equal_torch(shape: tuple[int, ...], has_bias: bool) -> None:
    torch.manual_seed(0)
    inputs = [torch.randn(shape), torch.randn(31, 48)] + [torch.randn(31)] * has_bias
    ours, theirs = ([x.clone().requires_grad_() for x in inputs] for _ in range(2))
    products = linear(*ours, *[None] * (not has_bias)), F.linear(*theirs)
    torch.testing.assert_close(*products, rtol=1e-5, atol=1e-5)
    grad = torch.randn(31, *shape[:-1]).movedim(0, -1)  # not contiguous
    for product in products:
        torch.autograd.backward(product, grad)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-5, atol=1e-4)


@needs_onednn
def test_linear_computes_the_gradients_that_are_asked_for() -> None:
    x, weight, bias = torch.randn(5, 8, requires_grad=True), torch.randn(3, 8), torch.randn(3)
    torch.autograd.backward(linear(x, weight, bias).sum())
    torch.testing.assert_close(x.grad, weight.sum(0).expand(5, 8))
    bias.requires_grad_()
    torch.autograd.backward(linear(x.detach(), weight, bias).sum())
    assert torch.equal(torch.full((3,), 5.0), bias.grad if bias.grad is not None else bias)
    with torch.inference_mode():
        torch.testing.assert_close(linear(x, weight, bias), F.linear(x, weight, bias))


def test_linear_is_torchs_in_other_precisions() -> None:
    x, weight = torch.randn(5, 8), torch.randn(3, 8)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(linear(x, weight, None), F.linear(x, weight))
    assert torch.equal(linear(x.double(), weight.double(), None), F.linear(x.double(), weight.double()))


@needs_onednn
def test_the_caches_of_shapes_are_bounded_unless_the_user_says_how(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in cpu.SHAPE_CACHES:
        monkeypatch.setenv(variable, "7")
    monkeypatch.delenv(cpu.SHAPE_CACHES[0])
    has_onednn.cache_clear()
    assert has_onednn()
    assert [os.environ[variable] for variable in cpu.SHAPE_CACHES] == ["64", "7"]


@needs_onednn
@pytest.mark.parametrize("shape", [(1, 48), (7, 48), (3, 130, 48)])
@pytest.mark.parametrize("bias", [True, False])
def test_packed_linear_equals_linear(shape: tuple[int, ...], bias: bool) -> None:
    torch.manual_seed(0)
    linear, x = nn.Linear(48, 31, bias=bias), torch.randn(shape)
    with torch.inference_mode():
        torch.testing.assert_close(PackedLinear(linear)(x), linear(x), rtol=1e-5, atol=1e-5)


@needs_onednn
def test_packed_encoder_keeps_its_sharing_and_its_numbers(encoder: Encoder) -> None:
    with torch.inference_mode():
        before = encoder(IDS).sequence_BSH
        encoder.pack()
        after = encoder(IDS).sequence_BSH
    torch.testing.assert_close(after, before, rtol=1e-5, atol=1e-5)
    num_packed = sum(isinstance(module, PackedLinear) for module in encoder.modules())
    assert num_packed == 4 + 2 + 1 + 1, "one block, the projection and the pooler"
    assert not any(isinstance(module, nn.Linear) for module in encoder.modules())


@needs_onednn
def test_only_plain_linear_maps_are_packed() -> None:
    hooked, own_forward = nn.Linear(4, 4), nn.Linear(4, 4)
    hooked.register_forward_pre_hook(lambda _module, _inputs: None)
    own_forward.forward = lambda input: input  # type: ignore[method-assign]
    for module in (hooked, own_forward, nn.Linear(4, 4).double(), nn.ReLU()):
        assert packed(module) is module
    assert isinstance(packed(nn.Linear(4, 4)), PackedLinear)


def test_where_packing_is_impossible_nothing_changes(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "has_onednn", lambda: False)
    encoder.pack()
    assert not any(isinstance(module, PackedLinear) for module in encoder.modules())
    assert any(isinstance(module, nn.Linear) for module in encoder.modules())


_SHAPES = """
import torch
from litebert.model.layers import Linear

linear, megabytes = Linear(256, 1024), []
for rows in range(100, 500):
    torch.autograd.backward(linear(torch.ones(rows, 256)).sum())
    if rows % 150 == 0:
        with open("/proc/self/statm") as stream:
            megabytes.append(int(stream.read().split()[1]) * 4096 / 1e6)
print(megabytes[-1] - megabytes[0])
"""


@needs_onednn
@pytest.mark.skipif(platform.system() != "Linux", reason="reads /proc")
def test_new_shapes_cost_little_memory_in_training() -> None:
    environment = {k: v for k, v in os.environ.items() if k not in cpu.SHAPE_CACHES}
    command = [sys.executable, "-c", _SHAPES]
    found = subprocess.run(command, capture_output=True, check=True, env=environment)
    assert float(found.stdout) < 250  # 470 without the bound, and growing


_FAULTS = """
import resource
import torch
from litebert.model.cpu import keep_freed_memory

{call}
for number in range(20):
    if number == 5:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    one = [torch.ones(1 << 20 | number << 12) for _ in range(3)]
    del one
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc gives memory back so")
def test_freed_memory_is_used_again() -> None:
    def faults(call: str) -> int:
        script = _FAULTS.format(call=call)
        found = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
        return int(found.stdout)

    assert faults("keep_freed_memory()") < 1000 < faults("")


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    monkeypatch.setattr(ctypes, "CDLL", None)
    cpu.keep_freed_memory()
