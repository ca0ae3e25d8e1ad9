"""Load on the server: throughput and latency of 1, 8 and 64 clients, then four times too much.

    python bench/serve_load.py [--model DIR] [--seconds 8] [--clients 1 8 64]

The server runs in a process of its own, this one asks it over loopback: first in closed loops
(each client sends its next request when it has its answer), then openly at four times the measured
capacity. Then every request must be answered, 200 or 429, the 429 quickly; memory must stay flat,
and a lone client must be served as before. Without ``--model``: albert-base in int8 with random
weights and the official vocabulary. Texts are SST-2 dev sentences with one word masked.
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

REPOSITORY = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("LITEBERT_SHARED", REPOSITORY.parent / "shared"))
BUILD = REPOSITORY / "build" / "bench" / "serve_load"
OVERLOAD = 4


def default_model() -> Path:
    """A folder with albert-base in int8: random weights, ALBERT's vocabulary."""
    import torch

    from litebert.interop.hf import build_model, save_model
    from litebert.interop.onnx import export_onnx
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


def bodies() -> list[bytes]:
    """Return request bodies: sentences with one word masked."""
    lines = (SHARED / "data/glue/SST-2/dev.tsv").read_text(encoding="utf-8").splitlines()[1:]
    generator = random.Random(0)
    found = []
    for line in lines:
        words = line.split("\t")[0].split()
        words[generator.randrange(len(words))] = "[MASK]"
        found.append(json.dumps({"text": " ".join(words)}).encode())
    return found


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

    def __init__(self, port: int) -> None:
        self.port = port
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, body: bytes, path: str = "/fill-mask") -> tuple[int, bytes]:
        """Send a request and read its answer."""
        if self.streams is None:
            self.streams = await asyncio.open_connection("127.0.0.1", self.port)
        reader, writer = self.streams
        head = (
            f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        )
        if not body:
            head = f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n"
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


async def closed_loop(port: int, clients: int, seconds: float, texts: list[bytes]) -> Tally:
    """Each client asks again as soon as it has its answer."""
    tally, turn = Tally(), itertools.count()
    end = time.monotonic() + seconds

    async def loop() -> None:
        client = Client(port)
        while time.monotonic() < end:
            started = time.monotonic()
            status, _ = await client.ask(texts[next(turn) % len(texts)])
            tally.add(status, time.monotonic() - started)
        client.close()

    await asyncio.gather(*(loop() for _ in range(clients)))
    return tally


async def open_loop(port: int, per_s: float, seconds: float, texts: list[bytes]) -> Tally:
    """Requests come at a fixed rate, whatever the answers; connections are reused."""
    tally, idle, running = Tally(), [], set()

    async def one(body: bytes) -> None:
        client = idle.pop() if idle else Client(port)
        started = time.monotonic()
        try:
            status, _ = await client.ask(body)
            tally.add(status, time.monotonic() - started)
            idle.append(client)
        except (OSError, asyncio.IncompleteReadError):
            tally.lost += 1

    begun = time.monotonic()
    for number in range(int(per_s * seconds)):
        await asyncio.sleep(max(0.0, begun + number / per_s - time.monotonic()))
        task = asyncio.create_task(one(texts[number % len(texts)]))
        running.add(task)
        task.add_done_callback(running.discard)
    await asyncio.gather(*running)
    for client in idle:
        client.close()
    return tally


async def resident_mb(port: int) -> float:
    """Return the server's memory."""
    client = Client(port)
    _, text = await client.ask(b"", "/metrics")
    client.close()
    lines = text.decode().splitlines()
    return float(next(x for x in lines if x.startswith("process_resident")).split()[1]) / 1e6


async def measure(port: int, arguments: argparse.Namespace) -> None:
    texts = bodies()
    await closed_loop(port, 2, 1.0, texts)
    capacity = 0.0
    for clients in arguments.clients:
        tally = await closed_loop(port, clients, arguments.seconds, texts)
        rate = tally.count(200) / arguments.seconds
        capacity = max(capacity, rate)
        p50, p99 = tally.percentile(200, 0.5), tally.percentile(200, 0.99)
        print(
            f"{clients:3} clients: {rate:7.1f} requests/s, p50 {p50:7.1f} ms, p99 {p99:7.1f} ms,"
            f" refused {tally.count(429)}, {await resident_mb(port):.0f} MB",
            flush=True,
        )
    before = await resident_mb(port)
    rate = OVERLOAD * capacity
    tally = await open_loop(port, rate, arguments.seconds, texts)
    after = await resident_mb(port)
    sent = int(rate * arguments.seconds)
    print(
        f"overload: {sent} requests at {rate:.0f}/s: {tally.count(200)} answered,"
        f" {tally.count(429)} refused (p50 {tally.percentile(429, 0.5):.1f} ms,"
        f" p99 {tally.percentile(429, 0.99):.1f} ms), {tally.lost} lost,"
        f" memory {before:.0f} -> {after:.0f} MB"
    )
    tally = await closed_loop(port, 1, min(3.0, arguments.seconds), texts)
    print(f"afterwards, 1 client: p50 {tally.percentile(200, 0.5):.1f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    arguments = parser.parse_args()
    model = arguments.model or default_model()
    command = [sys.executable, "-m", "litebert", "serve", "--model", str(model), "--port", "0"]
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / "server.log").open("w+") as log:
        server = subprocess.Popen(command, stderr=log)
        try:
            port = wait_for_port(BUILD / "server.log", server)
            asyncio.run(measure(port, arguments))
        finally:
            server.terminate()
            print(f"server stopped with status {server.wait()}")


def wait_for_port(log: Path, server: subprocess.Popen[bytes]) -> int:
    """Return the port that the server says it listens on."""
    while server.poll() is None:
        lines = [line for line in log.read_text().splitlines() if "serving" in line]
        if lines:
            return int(lines[0].rsplit(":", 1)[1])
        time.sleep(0.1)
    raise SystemExit(log.read_text())


if __name__ == "__main__":
    main()
