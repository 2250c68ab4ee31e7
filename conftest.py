"""What holds for every test, whichever folder it is in."""

from hypothesis import settings

# Nothing is timed here: a busy machine must not fail a property.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
