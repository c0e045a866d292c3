"""Training of ResNet-50 with TensorFlow."""
