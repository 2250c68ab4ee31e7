"""Fakes, builders and drivers that tests share; each test imports them as ``support.<module>``."""
