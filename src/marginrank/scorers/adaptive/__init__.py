"""The adaptive scorer: weights of features that depend on the query."""
