"""Inputs of tests: nothing in here is a test of this project."""

collect_ignore_glob = ["*"]
