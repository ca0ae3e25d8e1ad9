"""ONNX graphs built from the weights, checked, and read."""
