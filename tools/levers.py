"""Print what short pretrainings of runs/levers_cpu.sh reached: a row a lever, a figure a seed."""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from litebert.common.runs import RunFolder

COLUMNS = (
    "lever", "loss at masks", "words", "SOP", "length rule", "[CLS] probe", "SST-2, 4,000 examples",
)  # fmt: skip
CLS = ("cls", "model")
"""Features and weights of the probe that is shown."""


def figures(run: Path) -> list[float]:
    """Of a pretraining ``run``, its probe and its fine-tuning, in the order of the columns."""
    lines = [line for line in RunFolder.open(run).metrics() if "dev_masked_loss" in line]
    keys = ("dev_masked_loss", "dev_mlm_accuracy", "dev_sop_accuracy", "dev_sop_length_rule")
    probe = json.loads((run / "probe.json").read_text())
    tuned = json.loads((run.with_name(f"{run.name}-sst2") / "result.json").read_text())
    return [
        *(float(str(lines[-1][key])) for key in keys),
        next(float(p["score"]) for p in probe["probes"] if (p["features"], p["weights"]) == CLS),
        float(tuned["scores"]["accuracy"]),
    ]


def shown(values: Sequence[float]) -> str:
    """The median, and all of them; shares as percentages."""
    if median(values) > 1:
        return f"{median(values):.3f} ({', '.join(f'{v:.3f}' for v in values)})"
    return f"{median(values):.1%} ({', '.join(f'{100 * v:.1f}' for v in values)})"


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="OUT of runs/levers_cpu.sh")
    seeds: dict[str, list[list[float]]] = defaultdict(list)
    for tuned in sorted(parser.parse_args().folder.glob("*-sst2/result.json")):
        name = tuned.parent.name.removesuffix("-sst2")
        seeds[name.rsplit("-", 1)[0]].append(figures(tuned.parent.with_name(name)))
    print(f"| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}")
    for lever, rows in seeds.items():
        print(f"| {lever} | {' | '.join(shown(column) for column in zip(*rows, strict=True))} |")


if __name__ == "__main__":
    main()
