"""
Parse the text of a lecture in one file format.

Holds: one reader for each format: ``ipynb``, ``myst``, ``jupytext`` (scripts and other texts that jupytext reads) and
``chunks`` (R Markdown and Quarto); ``custom`` chooses among them for a book that configures its own readers.
In: the text of a file. Out: a ``Parsed`` notebook with the source location of each code cell.
``peek`` looks at a text without loading any library, for collection. Start reading at ``parsed``.
"""
