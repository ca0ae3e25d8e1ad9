"""Without a network the demo goes the whole way: the process sees nothing but its loopback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

UNSHARE = ["unshare", "--map-root-user", "--net"]

# A new network namespace has a loopback that is down; this takes it up without the tool `ip`.
LOOPBACK_UP = """
import fcntl, socket, struct, sys
IFF_UP, SIOCSIFFLAGS = 1, 0x8914
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
    fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))
try:
    socket.create_connection(("1.1.1.1", 443), timeout=5)
    sys.exit("there is a network")
except OSError:
    pass
"""


def in_no_network(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*UNSHARE, sys.executable, "-c", LOOPBACK_UP + code, *arguments]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture(autouse=True)
def _needs_unshare() -> None:
    try:
        answer = in_no_network("")
    except FileNotFoundError:
        pytest.skip("needs unshare(1)")
    if answer.returncode != 0:
        pytest.skip(f"namespaces of users are not allowed here: {answer.stderr.strip()[-200:]}")


@pytest.mark.slow
def test_the_demo_works_without_a_network(tmp_path: Path) -> None:
    code = "from litebert.cli import main; main(sys.argv[1:])"
    answer = in_no_network(code, "demo", "--steps", "20", "--out", str(tmp_path / "demo"))
    assert answer.returncode == 0, answer.stderr
    assert "the server ended with status 0" in answer.stdout
    assert (tmp_path / "demo" / "report.html").is_file()
