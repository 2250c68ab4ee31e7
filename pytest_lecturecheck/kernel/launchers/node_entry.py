"""
Entry point of a job step on its node: announce the location, then become the kernel.

Run by path, with the standard library only, as ``python -I node_entry.py MARK CONNECTION_FILE PROGRAM ARGUMENT...``. It
chooses addresses that the session can reach and writes them into the connection file. It announces them on stderr, in
one line that starts with MARK (a random word), and then replaces itself with the kernel: no shell, no child process.
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
    Return the address at which ``peer`` reaches this machine; the loopback address if ``peer`` is this machine.

    Nothing is sent: connecting a datagram socket only selects the route.
    """
    if not peer:
        return "127.0.0.1"
    family = socket.getaddrinfo(peer, _ANY_PORT, type=socket.SOCK_DGRAM)[0][0]
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((peer, _ANY_PORT))
        address: str = probe.getsockname()[0]
    return "127.0.0.1" if family == socket.AF_INET and address == peer else address


def free_ports(address: str, count: int) -> list[int]:
    """Return ports at ``address`` that are not bound."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sockets = [socket.socket(family, socket.SOCK_STREAM) for _ in range(count)]
    try:
        for found in sockets:
            found.bind((address, 0))
        return [found.getsockname()[1] for found in sockets]
    finally:
        for found in sockets:
            found.close()


def write_connection(path: str, peer: str) -> dict[str, Any]:
    """Write this machine's address and free ports into a connection file, for its owner only, and return them."""
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
    Identify the system and PID namespace in which this process's id is valid.

    Linux: the boot's id (random(4)) and the namespace (pid_namespaces(7)); an empty string elsewhere.
    """
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123 - as above
            return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115 - as above
    except OSError:
        return ""


def announcement(connection: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the announcement for the session."""
    step = f"{environment.get('SLURM_JOB_ID', '')}.{environment.get('SLURM_STEP_ID', '')}"
    return {"pid": os.getpid(), "home": process_home(), "step": step, "connection": dict(connection)}


def main(arguments: list[str]) -> None:
    """Announce the location, then become the kernel."""
    mark, path, *command = arguments
    connection = write_connection(path, os.environ.get("SLURM_LAUNCH_NODE_IPADDR", ""))
    sys.stderr.write(f"{mark} {json.dumps(announcement(connection, os.environ))}\n")
    sys.stderr.flush()
    # ipykernel ends when this process is no longer its parent; the session may be on another machine.
    os.environ["JPY_PARENT_PID"] = str(os.getppid())
    try:
        os.execvp(command[0], command)  # noqa: S606 - the kernel's own command, without a shell
    except OSError as exc:
        sys.stderr.write(f"{command[0]}: {exc.strerror}\n")
        sys.exit(127)


if __name__ == "__main__":
    main(sys.argv[1:])
