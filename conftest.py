"""What holds for every test, whichever folder it is in; the lectures in fixtures/ run without the tests' packages."""

from importlib.util import find_spec

if find_spec("hypothesis") is not None:
    from hypothesis import settings

    # Nothing is timed here: a busy machine must not fail a property.
    settings.register_profile("untimed", deadline=None)
    settings.load_profile("untimed")
