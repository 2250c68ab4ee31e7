"""Render runs and verdicts, one module for each medium."""
