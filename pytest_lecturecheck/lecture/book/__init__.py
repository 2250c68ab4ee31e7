"""
Read the configuration of the book that a folder of lectures belongs to.

Holds: readers for Jupyter Book 1, mystmd and Sphinx, tables of contents, and their path patterns.
In: a folder. Out: a ``Book``: the settings of its lectures, and which files are pages.
Configuration files are parsed and never executed. Start reading at ``configuration.read_book``.
"""
