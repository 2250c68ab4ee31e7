from hypothesis import settings

# Nothing here is timed: a busy machine must not fail a property.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
