"""
The caches of outputs that books keep, filled so that a build executes nothing again.

In comes a lecture as the book reads it and the outputs of its run; out goes an entry in the book's own cache with a
stamp beside it, or the reason why there is none. Start with :mod:`~pytest_lecturecheck.book_cache.port`: one adapter
stands behind it for each kind of book. :mod:`~pytest_lecturecheck.book_cache.eligibility` decides what may enter, and
:mod:`~pytest_lecturecheck.book_cache.stamp` whether an entry that is there was made in this environment.
"""
