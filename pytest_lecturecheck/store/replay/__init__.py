"""
Replay folders: one cell of a lecture with the state that it reads, as a notebook that stands alone.

In: the captured state and the run. Out: a folder with notebook, loader and data, and later the same checked. Start with
:mod:`.replay_folder`; :mod:`.stamp` recognises folders that this user made; :mod:`.load_state` is copied into them.
"""
