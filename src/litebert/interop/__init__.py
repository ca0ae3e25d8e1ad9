"""Folders of others: Hugging Face model folders, TensorFlow checkpoints, ONNX graphs."""
