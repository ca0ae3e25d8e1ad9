"""GLUE, SQuAD and RACE: their files and official scores."""
