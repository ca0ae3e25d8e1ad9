"""Load on the server: throughput and latency of 1, 8 and 64 clients, then four times too much.

    python bench/serve_load.py [--model DIR] [--seconds 8] [--clients 1 8 64] [--overloads 4]

The server runs in a process of its own, this one asks it over loopback: first in closed loops
(each client sends its next request when it has its answer), then openly at four times the measured
capacity. Then every request must be answered, 200 or 429, the 429 quickly; memory must stay flat,
and a lone client must be served as before: the last lines say whether, and so does the exit
status. Without ``--model``: albert-base in int8 with random weights and the official vocabulary.
Texts are SST-2 dev sentences, with one word masked for a model that fills masks. About two minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from machine import on_this_machine

REPOSITORY = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("LITEBERT_SHARED", REPOSITORY.parent / "shared"))
BUILD = REPOSITORY / "build" / "bench" / "serve_load"
OVERLOAD = 4

Figures = dict[str, Any]


def default_model() -> Path:
    """A folder with albert-base in int8: random weights, ALBERT's vocabulary."""
    import torch

    from litebert.interop.hf import build_model, save_model
    from litebert.interop.onnx.export import export_onnx
    from litebert.model.config import preset

    out = BUILD / "int8"
    if not out.is_dir():
        (BUILD / "tokenizer").mkdir(parents=True, exist_ok=True)
        vocabulary = SHARED / "fixtures/official/spiece.model"
        shutil.copyfile(vocabulary, BUILD / "tokenizer/spiece.model")
        model = build_model(preset("albert-base"), "pretraining", None, torch.Generator())
        save_model(model, BUILD / "torch", BUILD / "tokenizer", replace=True)
        export_onnx(BUILD / "torch", out, int8=True)
    return out


def bodies(can: list[str]) -> tuple[str, list[bytes]]:
    """Return a path that the model answers, and request bodies for it."""
    lines = (SHARED / "data/glue/SST-2/dev.tsv").read_text(encoding="utf-8").splitlines()[1:]
    generator = random.Random(0)
    path = "/fill-mask" if "fill-mask" in can else "/classify"
    field = "text"
    if path == "/classify" and "classify" not in can:
        path, field = "/v1/embeddings", "input"
    found = []
    for line in lines:
        words = line.split("\t")[0].split()
        if path == "/fill-mask":
            words[generator.randrange(len(words))] = "[MASK]"
        found.append(json.dumps({field: " ".join(words)}).encode())
    return path, found


@dataclass
class Tally:
    """What came back."""

    seconds: dict[int, list[float]] = field(default_factory=dict)
    lost: int = 0

    def add(self, status: int, seconds: float) -> None:
        """Count an answer."""
        self.seconds.setdefault(status, []).append(seconds)

    def count(self, status: int) -> int:
        """How many answers had this status."""
        return len(self.seconds.get(status, ()))

    def percentile(self, status: int, share: float) -> float:
        """A percentile of the time to an answer of this status, in ms."""
        ordered = sorted(self.seconds.get(status, [float("nan")]))
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class Client:
    """One connection that is kept open; the smallest HTTP that will do, to leave the CPU alone."""

    def __init__(self, port: int, path: str) -> None:
        self.port, self.path = port, path
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, body: bytes = b"") -> tuple[int, bytes]:
        """Send a request and read its answer; without a body it is a GET."""
        if self.streams is None:
            self.streams = await asyncio.open_connection("127.0.0.1", self.port)
        reader, writer = self.streams
        head = (
            f"POST {self.path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        )
        if not body:
            head = f"GET {self.path} HTTP/1.1\r\nhost: localhost\r\n\r\n"
        writer.write(head.encode() + body)
        status, length = 0, 0
        while (line := await reader.readline()) not in (b"\r\n", b""):
            if line.startswith(b"HTTP/"):
                status = int(line.split()[1])
            elif line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        if not status:
            raise ConnectionError("closed without an answer")
        return status, await reader.readexactly(length)

    def close(self) -> None:
        """Close the connection."""
        if self.streams is not None:
            self.streams[1].close()


@dataclass(frozen=True)
class Load:
    """Asks one server one kind of question."""

    port: int
    path: str
    texts: list[bytes]

    async def closed_loop(self, clients: int, seconds: float) -> Tally:
        """Each client asks again as soon as it has its answer."""
        tally, turn = Tally(), itertools.count()
        end = time.monotonic() + seconds

        async def loop() -> None:
            client = Client(self.port, self.path)
            while time.monotonic() < end:
                started = time.monotonic()
                status, _ = await client.ask(self.texts[next(turn) % len(self.texts)])
                tally.add(status, time.monotonic() - started)
            client.close()

        await asyncio.gather(*(loop() for _ in range(clients)))
        return tally

    async def open_loop(self, per_s: float, seconds: float) -> tuple[Tally, int]:
        """Requests come at a fixed rate, whatever the answers; returns how many were sent."""
        tally = Tally()
        idle: list[Client] = []
        running: set[asyncio.Task[None]] = set()

        async def one(body: bytes) -> None:
            client = idle.pop() if idle else Client(self.port, self.path)
            started = time.monotonic()
            try:
                status, _ = await client.ask(body)
                tally.add(status, time.monotonic() - started)
                idle.append(client)
            except (OSError, asyncio.IncompleteReadError):
                tally.lost += 1

        begun = time.monotonic()
        number = 0
        for number in range(int(per_s * seconds)):
            await asyncio.sleep(max(0.0, begun + number / per_s - time.monotonic()))
            task = asyncio.create_task(one(self.texts[number % len(self.texts)]))
            running.add(task)
            task.add_done_callback(running.discard)
        await asyncio.gather(*running)
        for client in idle:
            client.close()
        return tally, number + 1

    async def resident_mb(self) -> float:
        """Return the server's memory."""
        lines = (await get(self.port, "/metrics")).decode().splitlines()
        return float(next(x for x in lines if x.startswith("process_resident")).split()[1]) / 1e6


async def get(port: int, path: str) -> bytes:
    """Fetch one page."""
    client = Client(port, path)
    _, content = await client.ask()
    client.close()
    return content


async def measure(port: int, arguments: argparse.Namespace) -> Figures:
    """Run the loads, print them, and return the figures."""
    info = json.loads(await get(port, "/info"))["models"][0]
    path, texts = bodies(info["can"])
    load = Load(port, path, texts)
    print(f"{info['name']}, {info['runtime']}, POST {path}")
    await load.closed_loop(2, 1.0)
    closed: dict[int, dict[str, float]] = {}
    for clients in arguments.clients:
        tally = await load.closed_loop(clients, arguments.seconds)
        closed[clients] = {
            "requests_per_s": tally.count(200) / arguments.seconds,
            "p50_ms": tally.percentile(200, 0.5),
            "p99_ms": tally.percentile(200, 0.99),
            "refused": tally.count(429),
            "memory_mb": await load.resident_mb(),
        }
        print(
            f"{clients:3} clients: {closed[clients]['requests_per_s']:7.1f} requests/s,"
            f" p50 {closed[clients]['p50_ms']:7.1f} ms, p99 {closed[clients]['p99_ms']:7.1f} ms,"
            f" refused {tally.count(429)}, {closed[clients]['memory_mb']:.0f} MB",
            flush=True,
        )
    capacity = max(figures["requests_per_s"] for figures in closed.values())
    # Several times: full queues and new shapes of batches cost memory once, a leak costs it again.
    spells = [await measure_overload(load, OVERLOAD * capacity, arguments.seconds) for _ in range(arguments.overloads)]
    *_, before, last = [spell["memory_mb"] for spell in spells]
    calm = closed[min(closed)]["p50_ms"]
    tally = await load.closed_loop(min(closed), min(3.0, arguments.seconds))
    afterwards = tally.percentile(200, 0.5)
    print(f"afterwards, {min(closed)} clients: p50 {afterwards:.1f} ms ({calm:.1f} before)")
    promises = {
        "every request was answered, 200 or 429": not any(spell["lost"] for spell in spells),
        "some were refused each time, with p99 below a second": all(spell["refused_p99_ms"] < 1000 for spell in spells),
        "the last overload needed no more memory than the one before (2 %)": last < 1.02 * before,
        "afterwards it is as quick as before": tally.count(200) > 0 and afterwards < 1.5 * calm,
    }
    for promise, kept in promises.items():
        print(f"{'yes' if kept else 'NO '} {promise}")
    return {"closed": closed, "overloads": spells, "afterwards": {"p50_ms": afterwards}, "promises": promises}


async def measure_overload(load: Load, per_s: float, seconds: float) -> dict[str, float]:
    """Send too much; memory is watched all the while."""
    largest = 0.0
    sending = asyncio.create_task(load.open_loop(per_s, seconds))
    while not sending.done():
        await asyncio.wait({sending}, timeout=0.5)
        largest = max(largest, await load.resident_mb())
    tally, sent = await sending
    figures = {
        "sent": sent,
        "requests_per_s": per_s,
        "answered": tally.count(200),
        "refused": tally.count(429),
        "lost": sent - tally.count(200) - tally.count(429),
        "refused_p50_ms": tally.percentile(429, 0.5),
        "refused_p99_ms": tally.percentile(429, 0.99),
        "memory_mb": largest,
    }
    print(
        f"overload: {sent} requests at {per_s:.0f}/s: {tally.count(200)} answered,"
        f" {tally.count(429)} refused (p50 {figures['refused_p50_ms']:.1f} ms,"
        f" p99 {figures['refused_p99_ms']:.1f} ms), {figures['lost']} lost, {largest:.0f} MB",
        flush=True,
    )
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--overloads", type=int, default=4, help="at least two")
    parser.add_argument("--json", type=Path, help="write the figures to a file")
    arguments = parser.parse_args()
    model = arguments.model or default_model()
    command = [sys.executable, "-m", "litebert", "serve", "--model", str(model), "--port", "0"]
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / "server.log").open("w+") as log:
        server = subprocess.Popen(command, stderr=log)
        try:
            port = wait_for_port(BUILD / "server.log", server)
            figures = asyncio.run(measure(port, arguments))
        finally:
            server.terminate()
            print(f"server stopped with status {server.wait()}")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2), encoding="utf-8")
    if not all(figures["promises"].values()):
        sys.exit(1)


def wait_for_port(log: Path, server: subprocess.Popen[bytes]) -> int:
    """Return the port that the server says it listens on."""
    while server.poll() is None:
        lines = [line for line in log.read_text().splitlines() if "serving" in line]
        if lines:
            return int(lines[0].rsplit(":", 1)[1])
        time.sleep(0.1)
    raise SystemExit(log.read_text())


if __name__ == "__main__":
    with on_this_machine():
        main()
