"""What every back end promises; also run as a program, where a vendor's library must be loaded afresh."""

from __future__ import annotations

import importlib
import math
import sys
from contextlib import ExitStack
from typing import Any

from jpwr.backends import METHODS
from jpwr.channel import Scope


def keep_contract(method: str, *places: Any) -> list[str]:
    """Open a method's channels, try every promise, and return the channels' names; raises AssertionError."""
    open_channels = importlib.import_module(METHODS[method]).open_channels
    with ExitStack() as stack:
        channels = open_channels(stack, *places)
        names = [channel.info.name for channel in channels]
        assert channels, "no channels, and no word why"
        assert len(set(names)) == len(names), f"names are not unique: {names}"
        for channel in channels:
            info = channel.info
            assert info.name.split(":")[0] == method, f"{info.name} does not begin with {method}"
            assert isinstance(info.scope, Scope)
            assert info.source, "it does not say where its numbers come from"
            assert info.num_devices >= 1
            assert channel.read_power_w or channel.read_energy_j, "it can be read in no way"
            assert not info.lacks, f"{info.name} {info.lacks}"
            assert info.has_counter == (channel.read_energy_j is not None)
            if channel.read_power_w:
                assert 0 < channel.read_power_w() < 1e6
            if channel.read_energy_j:
                first_j, second_j = channel.read_energy_j(), channel.read_energy_j()
                assert math.isfinite(first_j) and second_j >= first_j
                assert info.counter_resolution_j > 0
            if channel.read_status:
                assert channel.read_status()
    return names


if __name__ == "__main__":
    print(*keep_contract(sys.argv[1]))
