"""The method `rocm`, under the name that it has in jpwr 0.0.10."""

from jpwr.ctxmgr import Method


class power(Method):  # noqa: N801 - the name in jpwr 0.0.10
    """AMD GPUs, for get_power."""

    name = "rocm"
