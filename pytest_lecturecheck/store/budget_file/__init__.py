"""
Budget files: TOML that people review, edit by hand and merge.

``budget_reader`` turns text into budgets and reports every fault with its line; ``budget_writer`` changes only the
tables that differ, so that comments and order survive; ``files`` opens and replaces the files. Start there.
"""
