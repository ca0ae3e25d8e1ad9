"""How settings become flags: configurations are plain dataclasses, the commands annotate them."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

SETTINGS = Parameter(name="*", consume_multiple=True, negative_bool="no-")
"""A configuration: each field is a flag of its own; one that takes several values takes them after one flag."""
SWITCHES = Parameter(name="*", consume_multiple=True)
"""The same, of settings that are off unless given: there is no --no-..."""
SEVERAL = Parameter(consume_multiple=True)
"""A flag that takes several values after it."""
AT_ONCE = Parameter(validator=Number(gte=1, lte=1024))
"""How many runs are made side by side."""
AsJson = Annotated[bool, Parameter(help="print JSON.")]
"""Whether a command answers programs."""
RECIPE = Parameter(name="--config")
"""A TOML file with settings, which `litebert.cli` reads before the flags."""
