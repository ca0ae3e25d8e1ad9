"""The push command: a folder of `export hub` to the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from litebert.commands.flags import SWITCH


def push(folder: Path, name: str, /, *, private: Annotated[bool, SWITCH] = False) -> None:
    """Upload a folder that `litebert export hub` wrote to the Hugging Face hub, as one commit.

    Who you are comes from `hf auth login` or HF_TOKEN; HF_ENDPOINT names another hub.

    Examples:
        litebert export hub runs/sst2 sst2-albert --language en --licence apache-2.0
        litebert push sst2-albert my-name/sst2-albert --private

    Args:
        folder: what export hub wrote; its card must name a licence.
        name: OWNER/NAME on the hub; made if it is not there.
        private: make a new repository that others do not see.
    """
    from litebert.interop.hub import push_hub

    print(push_hub(folder, name, private=private))
