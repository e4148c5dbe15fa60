"""Baselines of the papers, which minimize no loss of this package."""
