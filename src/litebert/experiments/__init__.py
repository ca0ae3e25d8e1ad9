"""The paper's tables and figures: a file each, one runner, one judge."""
