"""The measure of all others: ``python bare.py NOTEBOOK...`` runs each with plain nbclient, one after the other."""

from __future__ import annotations

import sys

import nbformat
from nbclient import NotebookClient

for path in sys.argv[1:]:
    NotebookClient(nbformat.read(path, as_version=4)).execute()
