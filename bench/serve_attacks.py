"""Attacks on the server: how quickly it says that it is alive while each is held up.

    python bench/serve_attacks.py [--seconds 30] [--only idle stop ...] [--bodies 10000]

Each attack has a server of its own on loopback, with 1,024 files and one thread, and comes from a
process of its own; meanwhile this one asks ``/health`` on new connections and ordinary questions.
Counts and times are bounded. An attack is held out if health has a p99 below 250 ms, ordinary
questions are answered, and nothing that was accepted is lost; the exit status says whether all
were. Other work on the machine adds to the times, so they are upper bounds.
Without ``--model`` the bundled model is served by torch. About five minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import itertools
import json
import multiprocessing
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

from machine import on_this_machine
from serve_load import Client

HEALTH_MS = 250
ORDINARY = json.dumps({"text": "Paris is the [MASK] of France."}).encode()
LIGATURE = "\ufdfa"


async def repeat(port: int, path: str, bodies: list[bytes], clients: int) -> None:
    """Ask the same over and over from several connections."""

    async def loop(number: int) -> None:
        client = Client(port, path)
        for turn in itertools.count(number):
            try:
                await client.ask(bodies[turn % len(bodies)])
            except (OSError, asyncio.IncompleteReadError):
                client = Client(port, path)
                await asyncio.sleep(0.05)

    await asyncio.gather(*(loop(number) for number in range(clients)))


async def hold(port: int, connections: int, said: bytes = b"", drip: bytes = b"") -> None:
    """Keep connections open; one that was closed is opened again."""

    async def one() -> None:
        while True:
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(said)
                reading = asyncio.ensure_future(reader.read(1))
                while not reading.done():
                    await asyncio.wait({reading}, timeout=1.0)
                    writer.write(drip)
                writer.close()
            await asyncio.sleep(5)

    await asyncio.gather(*(one() for _ in range(connections)))


def of_inputs(text: str, count: int) -> bytes:
    return json.dumps({"input": [text] * count}).encode()


def many(value: str, count: int) -> bytes:
    return f'{{"text": [{",".join([value] * count)}]}}'.encode()


HEADERS = b"POST /fill-mask HTTP/1.1\r\nHost: here\r\nX-Slow: "
BODY = b"POST /fill-mask HTTP/1.1\r\nHost: here\r\nContent-Length: 900000\r\n\r\n{"

ATTACKS = {
    "none": lambda port: asyncio.sleep(3600),
    "idle": lambda port: hold(port, 1100),
    "slow headers": lambda port: hold(port, 600, HEADERS, b"x"),
    "slow bodies": lambda port: hold(port, 600, BODY, b"x"),
    "unread log": lambda port: repeat(port, "/" + "x" * 2000, [ORDINARY], 4),
    "numbers": lambda port: repeat(port, "/fill-mask", [many("1", 499_000)], 4),
    "objects": lambda port: repeat(port, "/fill-mask", [many("{}", 330_000)], 4),
    "small texts": lambda port: repeat(port, "/fill-mask", [many('"a"', 130_000)], 4),
    "large body": lambda port: repeat(port, "/fill-mask", [many("1", 1_990_000)], 4),
    "ligatures": lambda port: repeat(port, "/v1/embeddings", [of_inputs(LIGATURE * 50_000, 1)], 16),
    "ligatures within": lambda port: repeat(
        port, "/v1/embeddings", [of_inputs(LIGATURE * 11_000, 8)], 16
    ),
    "blanks": lambda port: repeat(port, "/fill-mask", [many(json.dumps(" " * 50_000), 60)], 4),
    "many inputs": lambda port: repeat(
        port, "/v1/embeddings", [of_inputs("the value of a name " * 40, 2048)], 16
    ),
}  # fmt: skip


def attack(name: str, port: int) -> None:
    """Run an attack until this process is ended."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, hard), hard))
    asyncio.run(ATTACKS[name](port))


class Target:
    """A server of its own; its log is read, or deliberately not."""

    def __init__(self, arguments: argparse.Namespace, read_log: bool = True) -> None:
        command = ["bash", "-c", 'ulimit -n 1024; exec "$@"', "-", sys.executable, "-m", "litebert"]
        command += ["serve", "--port", "0", "--threads", "1"]
        if arguments.model:
            command += ["--model", str(arguments.model)]
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
        )
        assert self.process.stderr is not None
        first = ""
        while "serving" not in first:
            first = self.process.stderr.readline().decode()
            if not first:
                raise SystemExit("the server did not start")
        self.port = int(first.rsplit(":", 1)[1])
        self.num_logged = 0
        if read_log:
            threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.num_logged += len(line)

    def ask(self, path: str, body: bytes | None = None) -> tuple[int, bytes, float]:
        """Ask on a connection of its own: status, answer, milliseconds."""
        started = time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=40)
        method, headers = ("GET" if body is None else "POST"), {"content-type": "application/json"}
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return response.status, response.read(), 1000 * (time.monotonic() - started)
        except OSError:
            return 0, b"", 1000 * (time.monotonic() - started)
        finally:
            connection.close()

    def memory_mb(self) -> float:
        """Resident memory, from the kernel."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1000

    def stop(self) -> int:
        """Ask it to stop, as a supervisor does; the exit status."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return -1


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else float("nan")


def held(name: str, arguments: argparse.Namespace) -> dict[str, object]:
    """Hold up one attack; health and ordinary questions are asked meanwhile."""
    target = Target(arguments, read_log=name != "unread log")
    before = target.memory_mb()
    attacker = multiprocessing.get_context("spawn").Process(target=attack, args=(name, target.port))
    attacker.start()
    time.sleep(2.0)
    health: list[float] = []
    lost = 0
    ordinary: list[float] = []
    answered = Counter[int]()
    done = threading.Event()

    def ask_ordinary() -> None:
        while not done.is_set():
            status, _, took = target.ask("/fill-mask", ORDINARY)
            answered[status] += 1
            ordinary.append(took)
            time.sleep(0.2)

    asking = threading.Thread(target=ask_ordinary)
    asking.start()
    end = time.monotonic() + arguments.seconds
    while time.monotonic() < end:
        status, _, took = target.ask("/health")
        health.append(took)
        lost += status != 200
        time.sleep(0.05)
    done.set()
    asking.join()
    memory = target.memory_mb()
    attacker.terminate()
    attacker.join()
    stopped = target.stop()
    slow_health = percentile(health, 0.99)
    figures = {
        "health_p50_ms": percentile(health, 0.5),
        "health_p99_ms": slow_health,
        "health_lost": lost,
        "ordinary_p50_ms": percentile(ordinary, 0.5),
        "ordinary_p99_ms": percentile(ordinary, 0.99),
        "ordinary": dict(answered),
        "memory_mb": (before, memory),
        "exit_status": stopped,
    }
    kept = slow_health < HEALTH_MS and not lost and not stopped
    kept = kept and set(answered) == {200}
    print(
        f"{'yes' if kept else 'NO '} {name:17} health p50 {figures['health_p50_ms']:6.1f} ms, p99 "
        f"{figures['health_p99_ms']:6.1f} ms, lost {lost} of {len(health)}; ordinary p50 "
        f"{figures['ordinary_p50_ms']:6.1f} ms, p99 {figures['ordinary_p99_ms']:7.1f} ms, "
        f"{dict(answered)}; {before:.0f} -> {memory:.0f} MB; log {target.num_logged / 1e6:.1f} MB",
        flush=True,
    )
    return {**figures, "kept": kept}


def random_bodies(arguments: argparse.Namespace) -> dict[str, object]:
    """Send random bodies of all lengths; memory must be flat after the first tenth."""
    target = Target(arguments)
    generator = random.Random(0)
    words = ["the", "value", "of", "a", "Ünïcode", "日本", "[MASK]", "function", "(", ",", ".", "42"]
    connection = http.client.HTTPConnection("127.0.0.1", target.port)
    curve, statuses = [target.memory_mb()], Counter[int]()
    for number in range(1, arguments.bodies + 1):
        texts = [
            " ".join(generator.choices(words, k=generator.randrange(1, 60))) for _ in range(generator.randrange(1, 5))
        ]
        path, body = generator.choice(
            [
                ("/v1/embeddings", {"input": texts}),
                ("/fill-mask", {"text": [f"{text} [MASK]" for text in texts]}),
                ("/order", {"first": texts[0], "second": texts[-1]}),
                ("/layers", {"text": texts[0]}),
                ("/fill-mask", {"text": texts, "top_k": generator.randrange(-1, 120)}),
                ("/tokenize", {"text": generator.choice([texts[0], 3, None, texts])}),
            ]
        )
        content = json.dumps(body).encode()
        if generator.random() < 0.1:
            content = content[: generator.randrange(len(content))]
        connection.request("POST", path, content, {"content-type": "application/json"})
        response = connection.getresponse()
        response.read()
        statuses[response.status] += 1
        if number % (arguments.bodies // 10) == 0:
            curve.append(target.memory_mb())
    connection.close()
    growth = max(curve[2:]) / curve[1] - 1
    kept = growth <= 0.15 and not any(status >= 500 for status in statuses) and not target.stop()
    shown = ", ".join(f"{memory:.0f}" for memory in curve)
    print(
        f"{'yes' if kept else 'NO '} {'random bodies':17} {arguments.bodies:,}: {dict(statuses)}; "
        f"MB after each tenth: {shown} ({growth:+.1%} after the first)",
        flush=True,
    )
    return {"curve_mb": curve, "growth": growth, "statuses": dict(statuses), "kept": kept}


def stopping(arguments: argparse.Namespace, rounds: int = 5, clients: int = 32) -> dict[str, object]:
    """Stop the server under load on kept connections; what was sent must be answered."""
    outcome: Counter[str] = Counter()
    for _ in range(rounds):
        target, stop = Target(arguments), threading.Event()

        def client(target: Target = target, stop: threading.Event = stop) -> None:
            connection: http.client.HTTPConnection | None = None
            while not stop.is_set():
                if connection is None:
                    connection = http.client.HTTPConnection("127.0.0.1", target.port, timeout=40)
                    try:
                        connection.connect()
                    except OSError:
                        outcome["refused: the port is closed"] += 1
                        return
                try:
                    connection.request("POST", "/fill-mask", ORDINARY, {"content-type": "application/json"})
                    response = connection.getresponse()
                    response.read()
                    outcome[f"answered {response.status}"] += 1
                    if response.headers.get("connection") == "close":
                        connection.close()
                        connection = None
                except ConnectionResetError:
                    outcome["reset"] += 1
                    return
                except (OSError, http.client.HTTPException):
                    outcome["closed without an answer"] += 1
                    return
                time.sleep(random.uniform(0, 0.05))

        asking = [threading.Thread(target=client) for _ in range(clients)]
        for thread in asking:
            thread.start()
        time.sleep(1.5)
        for number in (signal.SIGHUP, signal.SIGUSR1):  # neither is a reason to stop
            target.process.send_signal(number)
        time.sleep(0.5)
        target.process.send_signal(signal.SIGTERM)
        status = target.process.wait(60)
        outcome[f"exit status {status}"] += 1
        stop.set()
        for thread in asking:
            thread.join()
    lost = outcome["reset"] + outcome["closed without an answer"]
    kept = not lost and outcome["exit status 0"] == rounds
    print(f"{'yes' if kept else 'NO '} {'SIGTERM':17} {dict(outcome)}", flush=True)
    return {"outcome": dict(outcome), "lost": lost, "kept": kept}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--bodies", type=int, default=10_000)
    parser.add_argument("--only", nargs="+", help=f"of {', '.join(ATTACKS)}, random, stop")
    parser.add_argument("--json", type=Path, help="write the figures to a file")
    arguments = parser.parse_args()
    chosen = arguments.only or [*ATTACKS, "random", "stop"]
    figures = {name: held(name, arguments) for name in chosen if name in ATTACKS}
    if "random" in chosen:
        figures["random"] = random_bodies(arguments)
    if "stop" in chosen:
        figures["stop"] = stopping(arguments)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2), encoding="utf-8")
    if not all(found["kept"] for found in figures.values()):
        sys.exit(1)


if __name__ == "__main__":
    with on_this_machine():
        main()
