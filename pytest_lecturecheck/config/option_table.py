"""
The table of options: everything about an option stands in its row.

The command line, the settings file, the keys of a lecture's own ``lecturecheck`` table, ``--help`` and the defaults
are made from these rows; :mod:`pytest_lecturecheck.config.option_row` explains the columns. To add an option, add a
row to the module of its group, and a field to the settings that it sets.

Every start of pytest loads these modules where the package is installed. They import next to nothing; the function
that reads a value is named in the row and loaded when a value has to be read.
"""

from __future__ import annotations

from typing import Final

from pytest_lecturecheck.config.options_for_machines import MACHINE_OPTIONS
from pytest_lecturecheck.config.options_for_results import RESULT_OPTIONS
from pytest_lecturecheck.config.options_for_runs import RUN_OPTIONS

OPTIONS: Final = (*RUN_OPTIONS, *RESULT_OPTIONS, *MACHINE_OPTIONS)
