"""
Options and settings: from the command line, the settings file and a lecture's own table to checked values.

In come raw option values and TOML tables. Out go ``SessionSettings``, the layers of a lecture's ``RunSettings``, the
variables of a kernel, and what is asked of Slurm. Start with :mod:`~pytest_lecturecheck.config.option_table`, which has
one row for each option; :mod:`~pytest_lecturecheck.config.options` combines the sources by precedence.
"""
