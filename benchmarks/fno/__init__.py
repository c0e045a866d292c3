"""FNO: a Fourier neural operator that predicts the next step in time of a convection."""
