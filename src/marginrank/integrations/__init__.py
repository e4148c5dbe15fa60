"""Losses and measures for LightGBM, XGBoost, PyTorch and JAX."""
