"""Official TensorFlow checkpoints to model folders."""
