"""Methods that the papers compare with and that minimise no loss of this package."""
