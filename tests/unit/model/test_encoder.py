"""The encoder: depth, hidden states, padding, rows, checkpointing, compilation, initialisation."""

from __future__ import annotations

import pytest
import torch

from litebert.common.errors import ConfigError, InputError
from litebert.model.config import ModelConfig
from litebert.model.encoder import Encoder, first_rows
from litebert.model.layers import LayerNorm
from litebert.model.pretraining import PretrainingModel

SHARINGS = ["all", "attention", "ffn", "none", "groups"]


def _config(**changes: object) -> ModelConfig:
    fields: dict[str, object] = {
        "vocab_size": 50,
        "embedding_size": 8,
        "hidden_size": 16,
        "num_heads": 2,
        "num_layers": 4,
        "max_positions": 12,
        "initializer_range": 0.2,
        **changes,
    }
    if fields.get("sharing") == "groups":
        fields["num_groups"] = 2
    return ModelConfig(**fields)  # type: ignore[arg-type]


def _encoder(**changes: object) -> Encoder:
    encoder = Encoder(_config(**changes), generator=torch.Generator().manual_seed(1))
    return encoder.eval()


def _ids(batch: int = 3, length: int = 7) -> torch.Tensor:
    return torch.randint(5, 50, (batch, length), generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("sharing", SHARINGS)
@pytest.mark.parametrize("inner", [1, 2])
def test_fewer_layers_give_the_hidden_state_on_the_way(sharing: str, inner: int) -> None:
    encoder, ids = _encoder(sharing=sharing, inner_group_num=inner), _ids()
    full = encoder(ids, return_hidden_states=True)
    assert len(full.hidden_states) == 1 + 4 * inner
    assert torch.equal(full.hidden_states[-1], full.sequence_BSH)
    for depth in (1, 2, 3):
        shallow = encoder(ids, num_layers=depth)
        assert shallow.hidden_states is None
        torch.testing.assert_close(shallow.sequence_BSH, full.hidden_states[depth * inner])


def test_a_shared_model_runs_deeper_with_the_same_parameters() -> None:
    shallow, deep = _encoder(num_layers=2), _encoder(num_layers=7)
    deep.load_state_dict(shallow.state_dict())
    assert torch.equal(shallow(_ids(), num_layers=7).sequence_BSH, deep(_ids()).sequence_BSH)


def test_a_model_without_sharing_refuses_to_run_deeper() -> None:
    with pytest.raises(ConfigError, match="num_layers 5"):
        _encoder(sharing="none")(_ids(), num_layers=5)


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_padding_does_not_change_what_is_before_it(implementation: str) -> None:
    encoder, ids = _encoder(), _ids()
    encoder.attention_implementation = implementation  # type: ignore[assignment]
    padded = torch.cat((ids, torch.randint(5, 50, (3, 4))), dim=1)
    mask = torch.arange(11)[None].expand(3, -1) < 7
    short, long = encoder(ids).sequence_BSH, encoder(padded, mask).sequence_BSH[:, :7]
    torch.testing.assert_close(short, long, rtol=1e-5, atol=1e-5)
    changed = encoder(padded, mask.long()).sequence_BSH[:, :7]
    assert torch.equal(changed, long), "0 and 1 serve as a mask too"


def test_eager_and_fused_attention_agree_with_gradients() -> None:
    mask = torch.ones(3, 7, dtype=torch.bool)
    mask[1, 4:] = False
    gradients = []
    for implementation in ("sdpa", "eager"):
        encoder = _encoder().double()
        encoder.attention_implementation = implementation
        out = encoder(_ids(), mask).sequence_BSH[mask]
        out.pow(2).mul(torch.arange(16)).sum().backward()
        gradients.append({name: p.grad for name, p in encoder.named_parameters()})
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradient, gradients[1][name])


@pytest.mark.parametrize("sharing", SHARINGS)
def test_rows_of_the_last_block_equal_those_of_the_whole(sharing: str) -> None:
    encoder, ids = _encoder(sharing=sharing), _ids()
    rows = torch.cat((first_rows(ids), torch.tensor([4, 12, 20, 4])))
    part = encoder(ids, rows_R=rows).sequence_BSH
    whole = encoder(ids).sequence_BSH
    assert part.shape == (7, 16)
    torch.testing.assert_close(part, whole.flatten(0, 1)[rows], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(encoder.pool_first(part[:3]), encoder.pool_first(whole[:, 0]))
    weight = torch.randn(part.shape)
    names, parameters = zip(*encoder.named_parameters(), strict=True)
    of_part = torch.autograd.grad((part * weight).sum(), parameters, allow_unused=True)
    of_whole = torch.autograd.grad((whole.flatten(0, 1)[rows] * weight).sum(), parameters, allow_unused=True)
    for name, ours, theirs in zip(names, of_part, of_whole, strict=True):
        if name.startswith("pooler"):
            assert not isinstance(ours, torch.Tensor)
        else:
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_rows_and_hidden_states_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="rows_R"):
        _encoder()(_ids(), rows_R=torch.tensor([0]), return_hidden_states=True)


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_checkpointing_changes_neither_losses_nor_gradients(dropout: float) -> None:
    gradients = []
    for checkpointed in (False, True):
        encoder = _encoder(hidden_dropout=dropout, attention_dropout=dropout).train()
        encoder.checkpoint_activations = checkpointed
        torch.manual_seed(5)
        encoder(_ids()).sequence_BSH.pow(3).sum().backward()
        gradients.append([p.grad for p in encoder.parameters() if p.grad is not None])
    for plain, recomputed in zip(*gradients, strict=True):
        torch.testing.assert_close(plain, recomputed)


def test_dropout_acts_in_training_only() -> None:
    encoder = _encoder(hidden_dropout=0.5, attention_dropout=0.5)
    assert torch.equal(encoder(_ids()).sequence_BSH, encoder(_ids()).sequence_BSH)
    encoder.train()
    assert not torch.equal(encoder(_ids()).sequence_BSH, encoder(_ids()).sequence_BSH)


def test_segments_matter_and_default_to_the_first() -> None:
    encoder, ids = _encoder(), _ids()
    zeros, ones = torch.zeros_like(ids), torch.ones_like(ids)
    torch.testing.assert_close(encoder(ids).sequence_BSH, encoder(ids, token_type_ids_BS=zeros).sequence_BSH)
    difference = encoder(ids, token_type_ids_BS=ones).sequence_BSH - encoder(ids).sequence_BSH
    assert difference.abs().max() > 1e-3


def test_a_sequence_may_begin_at_another_position() -> None:
    encoder, ids = _encoder().eval(), _ids(length=4)
    moved = encoder(ids, first_position=5).sequence_BSH
    with torch.no_grad():
        encoder.embeddings.position.weight[:4] = encoder.embeddings.position.weight[5:9].clone()
    assert torch.equal(moved, encoder(ids).sequence_BSH)
    with pytest.raises(InputError, match="positions"):
        encoder(ids, first_position=9)


def test_too_long_a_sequence_is_refused() -> None:
    with pytest.raises(InputError, match=r"13 tokens .* 12 positions: truncate"):
        _encoder()(_ids(length=13))


def test_projected_words_live_in_h_with_their_norm() -> None:
    encoder = _encoder(embedding_layout="projected_words")
    embeddings, ids = encoder.embeddings, _ids()
    assert embeddings.position.weight.shape == (12, 16)
    assert embeddings.projection is not None
    projected = embeddings.projection(embeddings.word(ids))
    expected = embeddings.norm(projected + embeddings.position.weight[:7] + embeddings.segment.weight[0])
    first = encoder(ids, return_hidden_states=True).hidden_states[0]
    torch.testing.assert_close(first, expected)


def test_equal_sizes_need_no_projection() -> None:
    assert _encoder(embedding_size=16).embeddings.projection is None
    assert _encoder(embedding_size=16, embedding_projection=True).embeddings.projection is not None


@pytest.mark.parametrize("sharing", ["all", "attention"])
def test_the_whole_step_compiles_without_a_graph_break(sharing: str) -> None:
    model = PretrainingModel(_config(sharing=sharing))
    ids, rows = _ids(), torch.tensor([2, 9])
    labels, orders = torch.tensor([7, 8]), torch.tensor([0, 1, 1])
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    mask = torch.ones_like(ids)
    for attention_mask, depth in ((None, None), (mask, 3)):
        out = compiled(ids, attention_mask, None, rows, labels, orders, num_layers=depth)
        plain = model(ids, attention_mask, None, rows, labels, orders, num_layers=depth)
        torch.testing.assert_close(out.loss, plain.loss, rtol=1e-5, atol=1e-5)
        assert torch.equal(out.mlm_correct, plain.mlm_correct)
        weights = list(model.parameters())
        ours = torch.autograd.grad(out.loss, weights, materialize_grads=True)
        theirs = torch.autograd.grad(plain.loss, weights, materialize_grads=True)
        for compiled_grad, plain_grad in zip(ours, theirs, strict=True):
            torch.testing.assert_close(compiled_grad, plain_grad, rtol=1e-4, atol=1e-5)
    torch.compiler.reset()


def test_one_generator_state_gives_one_model_whatever_the_global_state() -> None:
    models = []
    for global_seed in (1, 2):
        torch.manual_seed(global_seed)
        models.append(PretrainingModel(_config(), generator=torch.Generator().manual_seed(9)))
    for first, second in zip(*(m.parameters() for m in models), strict=True):
        assert torch.equal(first, second)


def test_initialisation_is_a_normal_cut_at_two_deviations() -> None:
    model = PretrainingModel(_config(vocab_size=5000, initializer_range=0.02))
    table = model.encoder.embeddings.word.weight.detach()
    assert table.abs().max() <= 0.04
    # A normal cut at two deviations keeps 0.8796 of its own.
    assert abs(table.std() / 0.02 - 0.8796) < 0.01
    norms = {id(m.weight) for m in model.modules() if isinstance(m, LayerNorm)}
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1:
            assert (parameter == (1.0 if id(parameter) in norms else 0.0)).all(), name
        else:
            assert parameter.detach().std() > 0, name


def test_norms_are_float32_under_autocast() -> None:
    encoder = _encoder()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = encoder(_ids()).sequence_BSH
    assert out.dtype == torch.float32
    torch.testing.assert_close(out, encoder(_ids()).sequence_BSH, rtol=0.1, atol=0.1)


def test_a_row_of_zeros_is_normalised_in_half_precision() -> None:
    norm = LayerNorm(4, eps=1e-12).half()
    with torch.no_grad():
        norm.weight.fill_(1.0)
        norm.bias.zero_()
    assert torch.equal(norm(torch.zeros(1, 4).half()), torch.zeros(1, 4).half())
