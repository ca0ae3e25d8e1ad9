"""The encoder: embeddings, then the blocks that a sharing plan lists, and the pooler."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from litebert.common.errors import InputError
from litebert.model.config import ModelConfig
from litebert.model.layers import (
    Attention,
    AttentionContext,
    AttentionImplementation,
    Block,
    BlockNorms,
    Embedding,
    FeedForward,
    LayerNorm,
    Linear,
    initialize,
    packed,
)
from litebert.model.sharing import plan_of


class EncoderOutput(NamedTuple):
    """What the encoder gives back."""

    sequence_BSH: Tensor  # output of the last block; [R, H] if only R rows were asked for
    hidden_states: tuple[Tensor, ...] | None
    """[B, S, H] after the embeddings and after each block, if asked for"""


class HeadInputs(NamedTuple):
    """A padded batch for a model of any head; its R rows are B features times their choices."""

    ids_RS: Tensor  # int64 token ids
    mask_RS: Tensor | None = None  # true (or 1) where there is a token; None if nothing is padded
    segments_RS: Tensor | None = None  # int64 segment of each token; None if all are in segment 0
    forbidden_RS: Tensor | None = None  # true (or 1) where no answer may start or end (spans)
    masked_M: Tensor | None = None  # int64 places among the flattened R * S tokens whose words are predicted
    num_choices: int = 1  # rows per feature


class Embeddings(nn.Module):
    """Word, position and segment embeddings, normalised, in H.

    "factorized" (the paper and the official code): all three live in E, are summed and
    normalised there, then projected. "projected_words" (albert_zh): only words live in E and are
    projected first; position, segment and norm live in H.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        width = config.position_size
        self.word = Embedding(config.vocab_size, config.embedding_size)
        self.position = Embedding(config.max_positions, width)
        self.segment = Embedding(config.type_vocab_size, width)
        self.norm = LayerNorm(width, eps=config.layer_norm_eps)
        shape = (config.embedding_size, config.hidden_size)
        self.projection = Linear(*shape) if config.has_projection else None
        self.project_words_first = config.embedding_layout == "projected_words"
        self.dropout = config.hidden_dropout

    def forward(self, input_ids_BS: Tensor, token_type_ids_BS: Tensor | None, first_position: int = 0) -> Tensor:
        """ids (int64) -> [B, S, H]; without segment ids every token is in segment 0."""
        end = first_position + input_ids_BS.shape[1]
        if end > self.position.num_embeddings:
            raise InputError(
                f"a sequence of {end} tokens is longer than the model's "
                f"{self.position.num_embeddings} positions: truncate it."
            )
        positions_SE = self.position.weight[first_position:end]
        x = self.word(input_ids_BS)
        if self.project_words_first:
            x = self._project(x)
        if token_type_ids_BS is None:
            x = x + (positions_SE + self.segment.weight[0])
        else:
            x = x + positions_SE + self.segment(token_type_ids_BS)
        x = F.dropout(self.norm(x), self.dropout, self.training)
        return x if self.project_words_first else self._project(x)

    def _project(self, x: Tensor) -> Tensor:
        if self.projection is None:
            return x
        projected: Tensor = self.projection(x)
        return projected


class Encoder(nn.Module):
    """The ALBERT or BERT encoder: `blocks` over shared or separate parameter sets.

    The sets are `attention`, `feed_forward` and `norms`; the sharing plan says which block uses
    which. `attention_implementation` and `checkpoint_activations` may be changed at any time.

    >>> encoder = Encoder(ModelConfig(vocab_size=100, hidden_size=64, num_layers=3))
    >>> out = encoder(torch.tensor([[2, 7, 3]]))
    >>> encoder.pool_first(out.sequence_BSH[:, 0]).shape
    torch.Size([1, 64])
    """

    def __init__(self, config: ModelConfig, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.config = config
        self.plan = plan_of(config)
        self.attention_implementation: AttentionImplementation = "sdpa"
        self.checkpoint_activations = False
        self.embeddings = Embeddings(config)
        num_sets = self.plan.num_sets
        self.attention = nn.ModuleList(Attention(config) for _ in range(num_sets.attention))
        self.feed_forward = nn.ModuleList(FeedForward(config) for _ in range(num_sets.feed_forward))
        self.norms = nn.ModuleList(BlockNorms(config) for _ in range(num_sets.norms))
        self.blocks = nn.ModuleList(
            Block(self.attention, self.feed_forward, self.norms, sets, config.hidden_dropout)
            for sets in self.plan.blocks
        )
        self.pooler = Linear(config.hidden_size, config.hidden_size)
        initialize(self, config.initializer_range, generator)

    def forward(
        self,
        input_ids_BS: Tensor,
        attention_mask_BS: Tensor | None = None,
        token_type_ids_BS: Tensor | None = None,
        num_layers: int | None = None,
        return_hidden_states: bool = False,
        rows_R: Tensor | None = None,
        first_position: int = 0,
    ) -> EncoderOutput:
        """Encode token ids.

        Args:
            input_ids_BS: int64.
            attention_mask_BS: true (or 1) where there is a token, false (0) where padding. Leave it out when nothing is
                padded: attention is faster without a mask.
            token_type_ids_BS: int64 segment of each token; segment 0 if left out.
            num_layers: layers to run instead of the configured number, see `SharingPlan.at_depth`.
            return_hidden_states: also return the embeddings and every block's output.
            rows_R: int64 indices into the flattened B * S tokens. With them the last block runs only there, after its
                attention: the same numbers for less work (a twentieth of a step for base, a tenth for small). Excludes
                hidden states.
            first_position: where the sequences begin; other than 0 only in training.
        """
        if rows_R is not None and return_hidden_states:
            raise ValueError("hidden states are of all tokens: ask for them without rows_R")
        mask_B11S = None if attention_mask_BS is None else attention_mask_BS.bool()[:, None, None]
        context = AttentionContext(self.attention_implementation, mask_B11S)
        x_BSH = self.embeddings(input_ids_BS, token_type_ids_BS, first_position)
        return self._run_blocks(x_BSH, context, num_layers, rows_R, return_hidden_states)

    def forward_ragged(
        self,
        input_ids_BS: Tensor,
        attention_mask_BS: Tensor | None = None,
        token_type_ids_BS: Tensor | None = None,
        num_layers: int | None = None,
        rows_R: Tensor | None = None,
    ) -> Tensor:
        """What `forward` gives as `sequence_BSH`, without computing padding, which comes back as 0.

        The tokens of all texts lie in one row, texts of equal length side by side. All but the
        attention works token by token and runs once over the row; attention runs for each length
        by itself and needs no mask. Padding must follow the text.
        """
        if attention_mask_BS is None:
            inputs = (input_ids_BS, None, token_type_ids_BS, num_layers)
            return self.forward(*inputs, rows_R=rows_R).sequence_BSH
        if token_type_ids_BS is None:
            token_type_ids_BS = torch.zeros_like(input_ids_BS)
        groups = _places_by_length(attention_mask_BS)
        place_T = torch.cat([group.flatten() for group in groups])
        if rows_R is not None:
            row_of_place = place_T.new_zeros(input_ids_BS.numel())
            row_of_place[place_T] = torch.arange(len(place_T), device=place_T.device)
            rows_R = row_of_place[rows_R]
        ids, segments = input_ids_BS.flatten(), token_type_ids_BS.flatten()
        embedded = [self.embeddings(ids[group], segments[group]).flatten(0, 1) for group in groups]
        shapes = tuple((group.shape[0], group.shape[1]) for group in groups)
        context = AttentionContext(self.attention_implementation, shapes=shapes)
        x = self._run_blocks(torch.cat(embedded), context, num_layers, rows_R).sequence_BSH
        if rows_R is not None:
            return x
        padded = x.new_zeros(input_ids_BS.numel(), x.shape[-1])
        padded[place_T] = x
        return padded.view(*input_ids_BS.shape, -1)

    def _run_blocks(
        self,
        x: Tensor,
        context: AttentionContext,
        num_layers: int | None,
        rows_R: Tensor | None,
        return_hidden_states: bool = False,
    ) -> EncoderOutput:
        """Run the blocks of the first layers over embedded tokens; the last one at given rows."""
        plan = self.plan if num_layers is None else self.plan.at_depth(num_layers)
        num_blocks = len(plan.blocks)
        hidden_states = [x]
        for index in range(num_blocks):
            # There are more than the configured blocks only where every layer is the same.
            block = self.blocks[index % len(self.blocks)]
            arguments = (x, context, rows_R if index == num_blocks - 1 else None)
            if self.checkpoint_activations and torch.is_grad_enabled():
                x = checkpoint(block, *arguments, use_reentrant=False)
            else:
                x = block(*arguments)
            if return_hidden_states:
                hidden_states.append(x)
        return EncoderOutput(x, tuple(hidden_states) if return_hidden_states else None)

    def pack(self) -> None:
        """Bring weights into the processor's order for faster predictions; no training after it."""
        for module in list(self.modules()):
            if isinstance(module, Encoder | Embeddings | Attention | FeedForward):
                for name, child in list(module.named_children()):
                    setattr(module, name, packed(child))

    def pool_first(self, first_BH: Tensor) -> Tensor:
        """[B, H] -> [B, H]: tanh of a linear map of the first tokens, `[CLS]`."""
        return torch.tanh(self.pooler(first_BH))

    def rows(self, inputs: HeadInputs) -> Tensor:
        """Where the first tokens are: all that the pooler reads."""
        return first_rows(inputs.ids_RS)

    def read(self, first_BH: Tensor, inputs: HeadInputs) -> dict[str, Tensor]:
        """The pooled vectors by their name in the table of heads."""
        return {"pooler_output": self.pool_first(first_BH)}


def first_rows(input_ids_BS: Tensor) -> Tensor:
    """[B]: where each sequence's first token, `[CLS]`, is among the flattened B * S tokens."""
    batch, length = input_ids_BS.shape
    return torch.arange(batch, device=input_ids_BS.device) * length


def _places_by_length(mask_BS: Tensor) -> list[Tensor]:
    """For each length the places [texts, length] of its tokens among the flattened B * S."""
    place_BS = torch.arange(mask_BS.numel(), device=mask_BS.device).view(mask_BS.shape)
    lengths_B = mask_BS.sum(1)
    lengths = sorted(set(lengths_B.tolist()) - {0})
    return [place_BS[lengths_B == length, :length] for length in lengths]
