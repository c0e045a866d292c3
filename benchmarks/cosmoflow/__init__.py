"""CosmoFlow: cosmological parameters from the distribution of matter, by a 3D convolutional network."""
