"""What the tests in a browser share: a server to start and stop, pictures for people."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page


class Server:
    """A server that a test may stop and start again on the same port."""

    def __init__(self, *arguments: str, port: int = 0) -> None:
        self.arguments = arguments
        command = [sys.executable, "-m", "litebert", "serve", "--port", str(port), *arguments]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        assert "serving" in line, line + self.process.stderr.read()
        self.address = line.rsplit(" ", 1)[1].strip()
        # Somebody must read the log, or the server waits for room in the pipe.
        self.reader = subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=self.process.stderr
        )

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()
        self.reader.wait()


def screenshot(page: Page, name: str) -> None:
    """Keep a picture for people to look at."""
    folder = Path(__file__).parents[1] / "build" / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=folder / f"{name}.png", full_page=True)
