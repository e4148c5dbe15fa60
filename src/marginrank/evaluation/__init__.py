"""Evaluation of rankings, and what differences between them mean."""
