"""Training of ResNet-50 with PyTorch."""
