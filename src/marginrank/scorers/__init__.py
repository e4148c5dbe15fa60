"""From parameters and features to scores, and from slopes of scores back to slopes of parameters."""
