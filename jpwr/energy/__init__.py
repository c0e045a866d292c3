"""Energy of a time window, from samples of power and readings of an energy counter, with its uncertainty.

Pure arithmetic: no clock, no files, no vendor library. `docs/explanation/energy.md` explains the model.
"""

from jpwr.energy.estimate import EnergyEstimate, add_estimates
from jpwr.energy.window import ChannelEnergy, energy_of_passes, means_w

__all__ = ["ChannelEnergy", "EnergyEstimate", "add_estimates", "energy_of_passes", "means_w"]
