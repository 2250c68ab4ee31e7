"""Keep budgets and runs on disk."""
