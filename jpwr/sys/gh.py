"""The method `gh`, under the name that it has in jpwr 0.0.10."""

from jpwr.ctxmgr import Method


class power(Method):  # noqa: N801 - the name in jpwr 0.0.10
    """Grace and Grace-Hopper modules, for get_power."""

    name = "gh"
