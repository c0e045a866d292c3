"""The method `gh`, under the name that it has in jpwr 0.0.10."""

from jpwr.ctxmgr import Method


class power(Method):  # noqa: N801 - its name there
    name = "gh"
