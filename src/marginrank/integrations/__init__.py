"""Losses and measures for LightGBM, XGBoost, PyTorch and JAX; hybrid search in databases and search engines."""
