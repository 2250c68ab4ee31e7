"""A peer: ``python papermill_loop.py NOTEBOOK...`` runs each with papermill, one after the other."""

from __future__ import annotations

import sys

import papermill

for path in sys.argv[1:]:
    papermill.execute_notebook(path, None, progress_bar=False)
