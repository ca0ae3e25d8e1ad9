"""How settings become flags: configurations are plain dataclasses, the commands annotate them."""

from __future__ import annotations

from cyclopts import Parameter
from cyclopts.validators import Number

SETTINGS = Parameter(name="*", consume_multiple=True, negative_iterable=())
"""A configuration: each field is a flag of its own; one that takes several values takes them \
after one flag."""
SEVERAL = Parameter(consume_multiple=True, negative="")
"""A flag that takes several values after it."""
SWITCH = Parameter(negative="")
"""A flag that is off unless given."""
JSON = Parameter(name="--json", negative="")
"""Print for programs."""
AT_ONCE = Parameter(validator=Number(gte=1, lte=1024))
"""How many runs are made side by side."""
RECIPE = Parameter(name="--config")
"""A TOML file with settings, which `litebert.cli` reads before the flags."""
