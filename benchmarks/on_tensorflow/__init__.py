"""What every workload on TensorFlow shares: devices, distribution over processes, TFRecords."""
