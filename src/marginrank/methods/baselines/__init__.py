"""Baselines of the papers, which minimise no loss of this package."""
