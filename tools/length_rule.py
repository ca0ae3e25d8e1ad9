"""How often segment lengths alone tell the order of two segments, by rules and length.

python tools/length_rule.py shards/wiki shards/novels
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import get_args

import numpy as np

from litebert.data.batches.example import ExampleConfig, Rules
from litebert.data.batches.pairs import form_pairs
from litebert.data.corpus.shards import ShardSet

LENGTHS = (64, 128, 512)


def main() -> None:
    """Print a table: the accuracy of "the first segment is longer, so they are swapped"."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("shards", type=Path, nargs="+", help="folders of token shards; the first shard counts")
    print("| corpus | length |", " | ".join(get_args(Rules)), "|")
    print("| --- " * (2 + len(get_args(Rules))) + "|")
    for folder in parser.parse_args().shards:
        shard = ShardSet.open(folder, "train").shards[0]
        offsets = [np.asarray(a, np.int64) for a in (shard.sentence_offsets, shard.document_offsets)]
        for length in LENGTHS:
            cells = []
            for rules in get_args(Rules):
                config = ExampleConfig(length=length, rules=rules)
                pairs = form_pairs(offsets[0], offsets[1], config, np.random.default_rng(0))
                longer = np.sign(pairs.lengths[:, 0] - pairs.lengths[:, 1])
                right = ((longer == 2 * pairs.labels - 1) + 0.5 * (longer == 0)).mean()
                cells.append(f"{right:.1%} of {len(pairs):,}")
            print(f"| {folder.name} | {length} |", " | ".join(cells), "|")


if __name__ == "__main__":
    main()
