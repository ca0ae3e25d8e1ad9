"""A batch of texts of unlike length as one row of tokens, so that no padding is computed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from litebert.model.block import Block
from litebert.model.encoder import Encoder
from litebert.model.layers import AttentionImplementation
from litebert.predict.inputs import Batch
from litebert.tasks.base import IntArray


@dataclass(frozen=True)
class RaggedBatch:
    """The tokens of a padded batch without the padding, texts of equal length side by side.

    All of an encoder but its attention works token by token, and runs once over the whole row;
    attention runs for each length by itself, over texts that need no mask.

    Example:
        >>> batch = RaggedBatch.of(pad([feature, longer], pad_id=0))
        >>> hidden_TH = batch.encode(encoder)
    """

    inputs: Batch
    depth: int | None
    groups: tuple[IntArray, ...]
    """For each length the places [n, length] of its tokens among the flattened B * S."""
    place_T: Tensor
    """The same for the whole row: the place of each token."""

    @classmethod
    def of(cls, inputs: Batch, depth: int | None = None) -> RaggedBatch:
        """Sort the texts of a batch by length."""
        batch, longest = inputs.input_ids.shape
        lengths_B = inputs.full_mask().sum(1)
        places_BS = np.arange(batch * longest).reshape(batch, longest)
        groups = tuple(
            places_BS[lengths_B == length, :length] for length in np.unique(lengths_B).tolist()
        )
        place_T = np.concatenate([group.ravel() for group in groups])
        return cls(inputs, depth, groups, torch.from_numpy(place_T))

    def encode(self, encoder: Encoder, places_R: Tensor | None = None) -> Tensor:
        """Return the encoder's output [T, H]; [R, H] for given places of the padded batch.

        With places the last block runs only there, behind its attention.
        """
        rows_R = None if places_R is None else self._rows(places_R)
        x_TH = torch.cat(list(self._embedded(encoder)))
        blocks = encoder.blocks(self.depth)
        for block in blocks:
            mixed_TH = self._mixed(block, x_TH, encoder.attention_implementation)
            x_TH = block.after_attention(x_TH, mixed_TH, rows_R if block is blocks[-1] else None)
        return x_TH

    def padded(self, x_TH: Tensor) -> Tensor:
        """Put the tokens back to their places; [B, S, H], zero at padding."""
        batch, longest = self.inputs.input_ids.shape
        x_BSH = x_TH.new_zeros(batch, longest, x_TH.shape[-1])
        x_BSH.view(batch * longest, -1)[self.place_T] = x_TH
        return x_BSH

    def _rows(self, places_R: Tensor) -> Tensor:
        """Find where in the row the tokens of these places are."""
        row_of_BS = torch.zeros(self.inputs.input_ids.size, dtype=torch.int64)
        row_of_BS[self.place_T] = torch.arange(len(self.place_T))
        return row_of_BS.index_select(0, places_R)

    def _embedded(self, encoder: Encoder) -> Iterator[Tensor]:
        """Embed the texts of each length; [n * length, H]."""
        for group in self.groups:
            ids = torch.from_numpy(self.inputs.input_ids.ravel()[group])
            types = torch.from_numpy(self.inputs.token_type_ids.ravel()[group])
            yield encoder.embeddings(ids, types).flatten(0, 1)

    def _mixed(self, block: Block, x_TH: Tensor, implementation: AttentionImplementation) -> Tensor:
        """Let every text attend to itself; [T, H]."""
        sizes = [group.size for group in self.groups]
        projected = [part_TH.split_with_sizes(sizes) for part_TH in block.project(x_TH)]
        mixed: list[Tensor] = []
        for group, *parts in zip(self.groups, *projected, strict=True):
            of_length = [part.view(*group.shape, -1) for part in parts]
            mixed.append(block.attention.mix(of_length, None, implementation).flatten(0, 1))
        return torch.cat(mixed)
