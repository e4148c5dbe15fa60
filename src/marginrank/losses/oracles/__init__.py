"""Exact oracles: the ranking with the largest loss plus score."""
