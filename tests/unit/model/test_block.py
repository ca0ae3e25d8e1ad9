"""Blocks are modules: they are printed, hooked and changed like others, and store nothing twice."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from litebert.model.config import ModelConfig
from litebert.model.encoder import Encoder
from litebert.model.layers import Attention, Block, FeedForward, Linear
from litebert.model.pretraining import PretrainingModel

SHARINGS = ["all", "attention", "ffn", "none", "groups"]
MAPS = ["query", "key", "value", "output", "expand", "contract"]
IDS = torch.randint(5, 50, (3, 7), generator=torch.Generator().manual_seed(2))
MASK = torch.arange(7) < torch.tensor([[7], [4], [5]])


def _encoder(sharing: str, **changes: object) -> Encoder:
    config = ModelConfig(
        vocab_size=50,
        embedding_size=8,
        hidden_size=16,
        num_heads=2,
        num_layers=4,
        max_positions=12,
        initializer_range=0.2,
        sharing=sharing,  # type: ignore[arg-type]
        num_groups=2 if sharing == "groups" else 1,
        **changes,  # type: ignore[arg-type]
    )
    return Encoder(config, generator=torch.Generator().manual_seed(1)).eval()


class LoraLinear(nn.Linear):
    """A map with a trained correction of rank 2, as libraries that adapt models put it."""

    def __init__(self, base: nn.Linear, seed: int) -> None:
        super().__init__(base.in_features, base.out_features)
        generator = torch.Generator().manual_seed(seed)
        self.weight, self.bias = base.weight, base.bias
        self.down = nn.Parameter(torch.randn(2, base.in_features, generator=generator))
        self.up = nn.Parameter(torch.randn(base.out_features, 2, generator=generator))

    def correction(self) -> Tensor:
        return 0.1 * self.up @ self.down

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input) + input @ self.correction().t()


class WrappedLinear(nn.Module):
    """A map around another, of which it reads the weight."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base = base

    def forward(self, input: Tensor) -> Tensor:
        return torch.nn.functional.linear(input, 2.0 * self.base.weight, self.base.bias)


def parent_of(encoder: Encoder, name: str) -> nn.Module:
    return encoder.attention[0] if name in MAPS[:4] else encoder.feed_forward[0]


@pytest.mark.parametrize("sharing", SHARINGS)
def test_a_printed_model_shows_its_blocks_and_their_parts(sharing: str) -> None:
    shown = repr(_encoder(sharing).blocks)
    assert "4 x Block(" in shown
    for part in ("(attention): Attention(", "(feed_forward): FeedForward(", "(query): Linear("):
        assert part in shown
    assert repr(_encoder(sharing)).count("x Block(") == 1


@pytest.mark.parametrize("sharing", SHARINGS)
@pytest.mark.parametrize("inner", [1, 2])
@pytest.mark.parametrize("ragged", [False, True])
def test_a_hook_fires_once_per_layer(sharing: str, inner: int, ragged: bool) -> None:
    encoder = _encoder(sharing, inner_group_num=inner)
    calls: dict[type, int] = {Block: 0, Attention: 0, FeedForward: 0, Linear: 0}

    def count(module: nn.Module, *_: object) -> None:
        calls[type(module)] += 1

    for module in (*encoder.blocks, *encoder.attention.modules(), *encoder.feed_forward.modules()):
        if type(module) in calls:
            module.register_forward_hook(count)
    for depth in (None, 2, 9 if sharing == "all" else 3):
        calls.update(dict.fromkeys(calls, 0))
        run = encoder.forward_ragged if ragged else encoder
        run(IDS, MASK, num_layers=depth)
        num_blocks = inner * (depth or 4)
        assert calls[Block] == calls[Attention] == calls[FeedForward] == num_blocks
        assert calls[Linear] == 6 * num_blocks


@pytest.mark.parametrize("sharing", SHARINGS)
def test_a_hook_on_one_block_sees_what_that_layer_gives(sharing: str) -> None:
    encoder = _encoder(sharing)
    seen: list[Tensor] = []
    encoder.blocks[2].register_forward_hook(lambda _module, _inputs, output: seen.append(output))
    states = encoder(IDS, MASK, return_hidden_states=True).hidden_states
    assert torch.equal(seen[0], states[3])
    assert len(seen) == 1


@pytest.mark.parametrize("sharing", SHARINGS)
@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("checkpointed", [False, True])
def test_a_replaced_map_is_used_in_training(sharing: str, name: str, checkpointed: bool) -> None:
    merged, changed = _encoder(sharing).train(), _encoder(sharing).train()
    changed.checkpoint_activations = checkpointed
    lora = LoraLinear(getattr(parent_of(changed, name), name), seed=3)
    setattr(parent_of(changed, name), name, lora)
    with torch.no_grad():
        getattr(parent_of(merged, name), name).weight.add_(lora.correction())
    states = []
    for encoder in (merged, changed):
        states.append(encoder(IDS, MASK).sequence_BSH)
        states[-1].pow(3).sum().backward()
    # Not the sums: their terms cancel, and what is left shows the rounding of the terms.
    torch.testing.assert_close(*states)
    expected = dict(merged.named_parameters())
    for parameter_name, parameter in changed.named_parameters():
        if parameter is lora.up or parameter is lora.down:
            assert parameter.grad is not None
            assert parameter.grad.abs().max() > 0
        elif not parameter_name.startswith("pooler"):
            torch.testing.assert_close(parameter.grad, expected[parameter_name].grad, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("sharing", SHARINGS)
@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("kind", ["lora", "wrapped", "hooked"])
def test_a_replaced_map_is_used_in_prediction(sharing: str, name: str, kind: str) -> None:
    plain, merged, changed = (_encoder(sharing) for _ in range(3))
    parent = parent_of(changed, name)
    target, base = getattr(merged.get_submodule(_path(name)), name), getattr(parent, name)
    with torch.no_grad():
        if kind == "lora":
            setattr(parent, name, LoraLinear(base, seed=3))
            target.weight.add_(getattr(parent, name).correction())
        elif kind == "wrapped":
            setattr(parent, name, WrappedLinear(base))
            target.weight.mul_(2.0)
        else:
            base.register_forward_hook(lambda _module, _inputs, output: 2.0 * output)
            target.weight.mul_(2.0)
            target.bias.mul_(2.0)
    with torch.inference_mode():
        expected = merged(IDS, MASK).sequence_BSH[MASK]
        assert (expected - plain(IDS, MASK).sequence_BSH[MASK]).abs().max() > 1e-3
        for packed in (False, True):
            if packed:
                changed.pack()
            for found in (changed(IDS, MASK).sequence_BSH, changed.forward_ragged(IDS, MASK)):
                torch.testing.assert_close(found[MASK], expected, rtol=1e-4, atol=1e-4)


def _path(name: str) -> str:
    return "attention.0" if name in MAPS[:4] else "feed_forward.0"


@pytest.mark.parametrize("through_the_block", [False, True])
def test_a_replaced_part_is_used_by_every_block_that_shares_it(through_the_block: bool) -> None:
    class Nothing(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.zeros_like(x)

    encoder = _encoder("ffn")
    names = list(encoder.state_dict())
    if through_the_block:
        encoder.blocks[1].feed_forward = Nothing()
    else:
        encoder.feed_forward[0] = Nothing()
    assert all(isinstance(block.feed_forward, Nothing) for block in encoder.blocks)
    assert list(encoder.state_dict()) == [
        name for name in names if "feed_forward.0" not in name or name.startswith("norms")
    ]
    assert encoder(IDS).sequence_BSH.isfinite().all()


@pytest.mark.parametrize("sharing", SHARINGS)
def test_nothing_is_stored_twice(sharing: str) -> None:
    model = PretrainingModel(_encoder(sharing).config)
    names = list(model.state_dict())
    assert names == [name for name, _ in model.named_parameters()]
    assert names == [name for name, _ in model.named_parameters(remove_duplicate=False)]
    assert not any("blocks" in name for name in names)
    assert "encoder.attention.0.query.weight" in names
    assert "encoder.feed_forward.0.expand.bias" in names
    assert "encoder.norms.0.attention.weight" in names


def test_a_copy_has_blocks_over_its_own_parameters() -> None:
    encoder = _encoder("attention")
    twin = copy.deepcopy(encoder).double()
    for index, block in enumerate(twin.blocks):
        assert isinstance(block, Block)
        assert block.attention is twin.attention[0]
        assert block.feed_forward is twin.feed_forward[index]
        assert block.attention.query.weight.dtype == torch.float64
    with torch.no_grad():
        twin.get_parameter("attention.0.query.weight").zero_()
    assert encoder.get_parameter("attention.0.query.weight").abs().max() > 0
