"""Lectures that send replies in the kernel's name."""

from __future__ import annotations

_FORGE = """
kernel = get_ipython().kernel
parent, ident = kernel.get_parent(), kernel._shell_parent_ident.get()
content = {'status': STATUS, 'ename': 'Other', 'evalue': '', 'traceback': []}
socket = kernel.shell_channel_thread.manager.get_subshell_to_shell_channel_socket(None)
kernel.session.send(socket, 'execute_reply', content, parent, ident=ident)
if ENDS:
    kernel.session.send(kernel.iopub_socket, 'status', {'execution_state': 'idle'}, parent=parent)
    import time
    time.sleep(0.5)
"""
UNTRUSTED = "; what is reported of the cell and of the next ones cannot be trusted"


def forge(status: str, *, ends: bool) -> str:
    """Return code that sends a reply with this status, and the idle status as well if the cell ``ends`` with it."""
    return f"STATUS, ENDS = {status!r}, {ends}\n{_FORGE}"
