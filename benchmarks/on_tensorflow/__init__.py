"""Code that all workloads on TensorFlow share: devices, distribution over processes, TFRecords."""
