"""Training engines: steps, checkpoints, pretraining, fine-tuning."""
