"""The machine of a measurement: processor, flags, load before and after; ratios with their spread.

    with on_this_machine():
        main()
    ratio_text(peers_seconds, our_seconds)   # "2.40x (2.31 to 2.52)"

It prints to standard error, so that ``--json`` on standard output stays JSON. A measurement on a
busy machine says so: by the load before it began, or by how far its repeats lie apart.
"""

from __future__ import annotations

import os
import platform
import statistics
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

FLAGS = ("avx2", "fma", "avx512f", "avx512_vnni", "avx_vnni", "avx512_bf16", "amx_int8")
BUSY_LOAD = 0.5
"""load before the measurement, for the whole machine: it should be about 0"""
WIDE_SPREAD = 0.2
"""(largest - smallest) / median of repeats of the same work"""

_spreads: list[float] = []


def processor() -> str:
    """Return model, cores and the flags that matter for matrix products."""
    fields: dict[str, str] = {}
    if Path("/proc/cpuinfo").is_file():
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            fields.setdefault(name.strip(), value.strip())
    model = fields.get("model name") or platform.processor() or platform.machine()
    found = [flag for flag in FLAGS if flag in fields.get("flags", "").split()]
    family = f" (family {fields['cpu family']})" if "cpu family" in fields else ""
    flags = " ".join(found) or "flags unknown"
    return f"{model}{family}, {os.cpu_count()} cores; {flags}"


def spread(seconds: Sequence[float]) -> float:
    """Return how far repeats of the same work lie apart, and remember it for the warning."""
    found = (max(seconds) - min(seconds)) / statistics.median(seconds)
    _spreads.append(found)
    return found


def ratio_text(theirs: Sequence[float], ours: Sequence[float]) -> str:
    """Return how much faster we are, by the best repeats; with the range over the rounds."""
    rounds = [their / our for their, our in zip(theirs, ours, strict=True)]
    spread(theirs), spread(ours)
    best = min(theirs) / min(ours)
    return f"{best:.2f}x" + (f" ({min(rounds):.2f} to {max(rounds):.2f})" if rounds[1:] else "")


@contextmanager
def on_this_machine() -> Iterator[None]:
    """Say where the block is measured, and warn at its end if the machine was busy."""
    before = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    print(f"machine: {processor()}; load before {before:.2f}", file=sys.stderr, flush=True)
    yield
    after = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    widest = max(_spreads, default=0.0)
    shown = f"; repeats up to {widest:.0%} apart" if _spreads else ""
    print(f"machine: load after {after:.2f}{shown}", file=sys.stderr)
    cores = os.cpu_count() or 1
    if before > BUSY_LOAD or after > cores + 1 or widest > WIDE_SPREAD:
        print("WARNING: the machine was busy; measure again on a free one", file=sys.stderr)
