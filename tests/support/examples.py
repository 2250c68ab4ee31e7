"""The number of examples that a property draws."""

from hypothesis import settings


def examples(count: int) -> int:
    """
    Return ``count``, or the number of the profile in force where that is higher.

    A number in a decorator would otherwise replace that of the profile ``explore``, which draws many.
    """
    return max(count, settings.default.max_examples) if settings.get_current_profile_name() == "explore" else count
