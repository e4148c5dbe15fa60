"""One weight per feature."""
