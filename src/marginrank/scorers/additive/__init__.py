"""One curve per feature."""
