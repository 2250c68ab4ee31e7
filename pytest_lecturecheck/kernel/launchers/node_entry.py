"""
What runs first in a step, on the node: it says where it is, then becomes the kernel.

Run by path, with the standard library only, as ``python -I at_node.py MARK CONNECTION_FILE PROGRAM ARGUMENT...``. It
chooses addresses that the session can reach, writes them into the connection file, tells them on stderr in one line
that starts with MARK (a word that nobody can guess), and replaces itself by the kernel: no shell, no child.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Mapping
from typing import Any

_PORTS = ("shell_port", "iopub_port", "stdin_port", "control_port", "hb_port")
_ANY_PORT = 9


def own_address(peer: str) -> str:
    """
    Give the address of this machine by which ``peer`` reaches it: the loopback where that is this machine itself.

    Nothing is sent: connecting a datagram socket only chooses the route.
    """
    if not peer:
        return "127.0.0.1"
    family = socket.getaddrinfo(peer, _ANY_PORT, type=socket.SOCK_DGRAM)[0][0]
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((peer, _ANY_PORT))
        address: str = probe.getsockname()[0]
    return "127.0.0.1" if family == socket.AF_INET and address == peer else address


def free_ports(address: str, count: int) -> list[int]:
    """Give ports that nobody has bound at ``address``."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sockets = [socket.socket(family, socket.SOCK_STREAM) for _ in range(count)]
    try:
        for found in sockets:
            found.bind((address, 0))
        return [found.getsockname()[1] for found in sockets]
    finally:
        for found in sockets:
            found.close()


def place_connection(path: str, peer: str) -> dict[str, Any]:
    """Write this machine's address and free ports into a connection file, for its owner only, and give them."""
    with open(path, encoding="utf-8") as file:  # noqa: PTH123 - as few imports as possible
        info = json.load(file)
    address = own_address(peer)
    chosen = {"ip": address, **dict(zip(_PORTS, free_ports(address, len(_PORTS)), strict=True))}
    beside = f"{path}.new"
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123 - a descriptor
        json.dump({**info, **chosen}, file)
    os.replace(beside, path)  # noqa: PTH105 - as few imports as possible
    return chosen


def process_home() -> str:
    """
    Name what this process's number is good for: the running system and its space of process numbers.

    Linux: the boot's id (random(4)) and the namespace (pid_namespaces(7)); an empty string elsewhere.
    """
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123 - as above
            return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115 - as above
    except OSError:
        return ""


def facts(connection: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    """Give what the session has to know."""
    step = f"{environment.get('SLURM_JOB_ID', '')}.{environment.get('SLURM_STEP_ID', '')}"
    return {"pid": os.getpid(), "home": process_home(), "step": step, "connection": dict(connection)}


def main(arguments: list[str]) -> None:
    """Say where this is, then become the kernel."""
    mark, path, *command = arguments
    connection = place_connection(path, os.environ.get("SLURM_LAUNCH_NODE_IPADDR", ""))
    sys.stderr.write(f"{mark} {json.dumps(facts(connection, os.environ))}\n")
    sys.stderr.flush()
    # A kernel ends when this process is not its parent any more; the session's is on another machine, perhaps.
    os.environ["JPY_PARENT_PID"] = str(os.getppid())
    try:
        os.execvp(command[0], command)  # noqa: S606 - that is the point: the kernel's own command, and no shell
    except OSError as exc:
        sys.stderr.write(f"{command[0]}: {exc.strerror}\n")
        sys.exit(127)


if __name__ == "__main__":
    main(sys.argv[1:])
