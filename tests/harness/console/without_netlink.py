#!/usr/bin/env python3
"""Starts the browser in ``TIELINE_TEST_BROWSER`` so that the machine's network never changes for it.

Chromium fails requests that are under way with ERR_NETWORK_CHANGED when an address or an interface comes or goes, as
each pod's does on this machine. It learns of them by netlink sockets, which it does without where it gets none.
"""

import ctypes
import errno
import os
import platform
import struct
import sys

LAUNCHER = os.path.abspath(__file__)
_AF_NETLINK = 16
_PR_SET_SECCOMP = 22
_PR_SET_NO_NEW_PRIVS = 38
_MODE_FILTER = 2
_SOCKET = {"x86_64": 41, "aarch64": 198}
"""The number of the system call ``socket``, by architecture."""
_LOAD_WORD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000
_NUMBER_AT, _FAMILY_AT = 0, 16
"""Where ``struct seccomp_data`` has the call's number and its first argument."""


def variables(program: str) -> dict[str, str]:
    """The environment of ``LAUNCHER`` that starts this browser."""
    return {**os.environ, "TIELINE_TEST_BROWSER": program}


class _Program(ctypes.Structure):
    """``struct sock_fprog``."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def refuse_netlink(socket_call: int) -> None:
    """Makes this process and those that it starts unable to open netlink sockets."""
    instructions = [
        (_LOAD_WORD, 0, 0, _NUMBER_AT),
        (_JUMP_IF_EQUAL, 0, 3, socket_call),
        (_LOAD_WORD, 0, 0, _FAMILY_AT),
        (_JUMP_IF_EQUAL, 0, 1, _AF_NETLINK),
        (_RETURN, 0, 0, _FAIL | errno.EAFNOSUPPORT),
        (_RETURN, 0, 0, _ALLOW),
    ]
    code = b"".join(struct.pack("=HBBI", *each) for each in instructions)
    program = _Program(len(instructions), code)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
        _PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(program), 0, 0
    ):
        raise OSError(ctypes.get_errno(), "no filter of system calls could be set")


if __name__ == "__main__":
    if (number := _SOCKET.get(platform.machine())) is not None:
        refuse_netlink(number)
    browser = os.environ["TIELINE_TEST_BROWSER"]
    os.execv(browser, [browser, *sys.argv[1:]])
