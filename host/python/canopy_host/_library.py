# SPDX-License-Identifier: Apache-2.0
"""canopy_host.h in ctypes."""

from __future__ import annotations

import ctypes as c
import os
from functools import lru_cache

from ._errors import BY_CODE, InternalError

ABI_VERSION = 3
DEFAULT_SOCKET = "/run/canopy/host.sock"
NAME_MAX = 64
TEXT_MAX = 1024


class Error(c.Structure):
    """canopy_error."""

    _fields_ = [("code", c.c_int32), ("field", c.c_char * NAME_MAX), ("message", c.c_char * TEXT_MAX)]


class JoinOptions(c.Structure):
    """canopy_join_options."""

    _fields_ = [
        ("size", c.c_size_t),
        ("group", c.c_char_p),
        ("host", c.c_char_p),
        ("role", c.c_uint32),
        ("qpn", c.c_uint32),
        ("address", c.c_uint8 * 16),
        ("va", c.c_uint64),
        ("length", c.c_uint64),
        ("rkey", c.c_uint32),
        ("start_psn", c.c_uint32),
        ("timeout_ms", c.c_int64),
        ("flags", c.c_uint64),
    ]


class Connection(c.Structure):
    """canopy_connection."""

    _fields_ = [
        ("proxy_address", c.c_uint8 * 16),
        ("designated_qpn", c.c_uint32),
        ("start_psn", c.c_uint32),
        ("path_mtu", c.c_uint32),
        ("write_rkey", c.c_uint32),
        ("write_base_va", c.c_uint64),
        ("write_length", c.c_uint64),
    ]


class Ready(c.Structure):
    """canopy_ready."""

    _fields_ = [("receivers", c.c_uint32), ("reserved", c.c_uint32), ("write_length", c.c_uint64)]


class Event(c.Structure):
    """canopy_event."""

    _fields_ = [
        ("kind", c.c_uint32),
        ("receivers", c.c_uint32),
        ("write_length", c.c_uint64),
        ("host", c.c_char * NAME_MAX),
        ("reason", c.c_char * TEXT_MAX),
    ]


_HANDLE = c.c_void_p
_ERROR = c.POINTER(Error)
_FUNCTIONS = {
    "canopy_client_connect": [c.c_char_p, c.POINTER(_HANDLE), _ERROR],
    "canopy_client_connect_with_token": [c.c_char_p, c.c_char_p, c.POINTER(_HANDLE), _ERROR],
    "canopy_join": [_HANDLE, c.POINTER(JoinOptions), c.POINTER(_HANDLE), _ERROR],
    "canopy_leave_host": [_HANDLE, c.c_char_p, c.c_char_p, _ERROR],
    "canopy_membership_connection": [_HANDLE, c.POINTER(Connection), _ERROR],
    "canopy_wait_ready": [_HANDLE, c.c_uint32, c.c_int64, c.POINTER(Ready), _ERROR],
    "canopy_leave": [_HANDLE, _ERROR],
    "canopy_events_open": [_HANDLE, c.POINTER(_HANDLE), _ERROR],
    "canopy_events_next": [_HANDLE, c.c_int64, c.POINTER(Event), _ERROR],
}


@lru_cache(maxsize=None)
def library() -> c.CDLL:
    """The shared library: the file that CANOPY_HOST_LIBRARY names, else one in the system's library path."""
    name = os.environ.get("CANOPY_HOST_LIBRARY", "libcanopy_host_c.so")
    try:
        found = c.CDLL(name)
    except OSError as error:
        raise InternalError(f"{name} cannot be loaded ({error}): install it, or set CANOPY_HOST_LIBRARY to its path") from None
    found.canopy_abi_version.restype = c.c_uint32
    if found.canopy_abi_version() != ABI_VERSION:
        raise InternalError(f"{name} has ABI version {found.canopy_abi_version()}, this module needs {ABI_VERSION}")
    for function, arguments in _FUNCTIONS.items():
        getattr(found, function).argtypes = arguments
        getattr(found, function).restype = c.c_int32
    for function in ("canopy_client_free", "canopy_membership_free", "canopy_events_free"):
        getattr(found, function).argtypes = [_HANDLE]
        getattr(found, function).restype = None
    return found


def text(raw: bytes) -> str:
    """A string from the library."""
    return raw.decode(errors="replace")


def call(function: str, *arguments: object, expected: tuple = ()) -> int:
    """Calls; raises unless the code is 0 or expected. Releases the interpreter lock during the call."""
    error = Error()
    code = getattr(library(), function)(*arguments, c.byref(error))
    if code and code not in expected:
        raise BY_CODE.get(code, InternalError)(text(error.message), text(error.field))
    return code
