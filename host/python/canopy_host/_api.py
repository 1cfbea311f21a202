# SPDX-License-Identifier: Apache-2.0
"""Clients, memberships and events."""

from __future__ import annotations

import ctypes as c
import enum
import ipaddress
import threading
import time
from dataclasses import dataclass
from typing import Iterator, Optional, Union

from . import _library as lib
from ._errors import END, InvalidArgument, TimedOut

Address = Union[str, ipaddress.IPv6Address]
# A wait consists of such pieces, so that a signal (Ctrl-C) is handled soon.
_PIECE_MS = 200
_MAX_MS = (1 << 63) - 1


class Role(enum.IntEnum):
    """The role of a member; a group has one source."""

    SOURCE = 1
    RECEIVER = 2


class EventKind(enum.IntEnum):
    """CANOPY_EVENT_*; documented in canopy_host.h."""

    WAITING = 1
    READY = 2
    DEGRADED = 3
    RECEIVER_JOINED = 4
    RECEIVER_LEFT = 5
    EVICTED = 6
    FAILED = 7
    DISCONNECTED = 8
    RECONNECTED = 9
    DELETED = 10
    SESSION_ENDED = 11


@dataclass(frozen=True)
class Memory:
    """Memory that RDMA WRITEs land in."""

    va: int
    rkey: int
    length: int


@dataclass(frozen=True)
class Connection:
    """The connection parameters of the queue pair; the same for the source and for receivers."""

    proxy_address: ipaddress.IPv6Address
    designated_qpn: int
    start_psn: int
    path_mtu: int
    write_base_va: int
    write_rkey: int
    write_length: int


@dataclass(frozen=True)
class Ready:
    """A group that is ready; `write_length` 0 = RDMA WRITE is not possible."""

    receivers: int
    write_length: int


@dataclass(frozen=True)
class Event:
    """An event; fields that its kind does not have are empty."""

    kind: EventKind
    receivers: int = 0
    write_length: int = 0
    host: str = ""
    reason: str = ""


def _bytes(field: str, value: str) -> bytes:
    if not isinstance(value, str) or "\0" in value:
        raise InvalidArgument(f"{field}: {value!r} is not a string without NUL", field)
    return value.encode()


def _number(field: str, value: int, bits: int) -> int:
    """Checks the range, because ctypes would truncate the value."""
    if not isinstance(value, int) or not 0 <= value < 1 << bits:
        raise InvalidArgument(f"{field}: {value!r} is not within 0..2^{bits}-1", field)
    return value


def _millis(seconds: float) -> int:
    if not seconds >= 0:
        raise InvalidArgument(f"timeout: {seconds!r} s is no time: use 0 or more", "timeout")
    return int(min(seconds * 1000, _MAX_MS))


class _Handle:
    """An owned handle of the library. Closing does not wait: no other thread may be in a call."""

    _free = ""

    def __init__(self, handle: c.c_void_p) -> None:
        self._handle: Optional[c.c_void_p] = handle
        self._lock = threading.Lock()

    def _get(self) -> c.c_void_p:
        if self._handle is None:
            raise ValueError(f"{type(self).__name__} is closed")
        return self._handle

    def close(self) -> None:
        """Frees the handle; does not leave a group."""
        with self._lock:
            handle, self._handle = self._handle, None
        if handle is not None:
            getattr(lib.library(), self._free)(handle)

    def __del__(self) -> None:
        # The constructor may have failed.
        if getattr(self, "_handle", None) is not None:
            self.close()


class Client(_Handle):
    """A connection to the agent. A context manager: its end closes it, and does not leave a group."""

    _free = "canopy_client_free"

    def __init__(self, path: str = lib.DEFAULT_SOCKET, token_file: Optional[str] = None) -> None:
        """Raises SocketError if there is no agent, or this user may not open its socket. `token_file`: has the token of this pod's service
        account, for an agent that knows its callers by that; else that of the environment, CANOPY_TOKEN_FILE, is sent if there is one."""
        handle = c.c_void_p()
        if token_file is None:
            lib.call("canopy_client_connect", _bytes("path", path), c.byref(handle))
        else:
            files = _bytes("path", path), _bytes("token_file", token_file)
            lib.call("canopy_client_connect_with_token", *files, c.byref(handle))
        super().__init__(handle)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def join(
        self,
        group: str,
        host: str,
        role: Role,
        qpn: int,
        memory: Optional[Memory] = None,
        address: Optional[Address] = None,
        timeout: float = 30.0,
        start_psn: Optional[int] = None,
        lease: bool = True,
    ) -> "Membership":
        """Joins; repeating a join with the same content succeeds. `timeout`: seconds to retry while the agent does
        not answer. `start_psn`: first PSN of a source that cannot choose it; else that of the answer is used. `lease`:
        the host leaves when this process ends, however it ends; without one the membership lasts until someone leaves."""
        o = lib.JoinOptions(size=c.sizeof(lib.JoinOptions), group=_bytes("group", group), host=_bytes("host", host))
        o.role, o.qpn = Role(role), _number("qpn", qpn, 32)
        if address is not None:
            try:
                o.address[:] = ipaddress.IPv6Address(address).packed
            except ValueError as error:
                raise InvalidArgument(f"address: {error}", "address") from None
        if not lease:
            o.flags = 1
        if start_psn is not None:
            o.start_psn = 1 << 31 | _number("start_psn", start_psn, 24)
        if memory is not None:
            o.va, o.length = _number("memory.va", memory.va, 64), _number("memory.length", memory.length, 64)
            o.rkey = _number("memory.rkey", memory.rkey, 32)
            if memory.length == 0:
                raise InvalidArgument("memory.length: 0 bytes: register some, or give no memory", "memory.length")
        # The library interprets 0 as its default.
        o.timeout_ms = max(_millis(timeout), 1)
        handle = c.c_void_p()
        lib.call("canopy_join", self._get(), c.byref(o), c.byref(handle))
        return Membership(handle, group, host)

    def leave(self, group: str, host: str) -> None:
        """Ends a membership, also that of a process that has exited."""
        lib.call("canopy_leave_host", self._get(), _bytes("group", group), _bytes("host", host))


class Membership(_Handle):
    """A host's membership of a group. A context manager: its end leaves the group; dropping it does not."""

    _free = "canopy_membership_free"

    def __init__(self, handle: c.c_void_p, group: str, host: str) -> None:
        super().__init__(handle)
        self.group, self.host = group, host

    def __enter__(self) -> "Membership":
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.leave()
        finally:
            self.close()

    @property
    def connection(self) -> Connection:
        """The connection parameters that the join returned."""
        raw = lib.Connection()
        lib.call("canopy_membership_connection", self._get(), c.byref(raw))
        proxy = ipaddress.IPv6Address(bytes(raw.proxy_address))
        return Connection(
            proxy, raw.designated_qpn, raw.start_psn, raw.path_mtu, raw.write_base_va, raw.write_rkey, raw.write_length
        )

    def wait_ready(self, receivers: int, timeout: float) -> Ready:
        """Waits until the group is ready with at least this many receivers; TimedOut names what was missing."""
        deadline, raw = time.monotonic() + timeout, lib.Ready()
        _number("receivers", receivers, 32), _millis(timeout)
        while True:
            left = _millis(max(deadline - time.monotonic(), 0))
            piece = min(left, 10 * _PIECE_MS)
            try:
                lib.call("canopy_wait_ready", self._get(), receivers, piece, c.byref(raw))
                return Ready(raw.receivers, raw.write_length)
            except TimedOut:
                if left <= piece:
                    raise

    def events(self) -> "Events":
        """The events of the group from now on, its current state first. Each call has its own."""
        handle = c.c_void_p()
        lib.call("canopy_events_open", self._get(), c.byref(handle))
        return Events(handle)

    def leave(self) -> None:
        """Leaves; succeeds if the host is not in the group. Call it again after Unavailable."""
        lib.call("canopy_leave", self._get())


class Events(_Handle):
    """A blocking iterator of events that ends after DELETED."""

    _free = "canopy_events_free"

    def next(self, timeout: Optional[float] = None) -> Optional[Event]:
        """The next event; None if there is none within `timeout` seconds. Raises StopIteration after DELETED."""
        deadline = None if timeout is None else time.monotonic() + _millis(timeout) / 1000
        raw = lib.Event()
        while True:
            left = _PIECE_MS if deadline is None else _millis(max(deadline - time.monotonic(), 0))
            piece = min(left, _PIECE_MS)
            code = lib.call("canopy_events_next", self._get(), piece, c.byref(raw), expected=(TimedOut.code, END))
            if code == 0:
                kind, host, reason = EventKind(raw.kind), lib.text(raw.host), lib.text(raw.reason)
                return Event(kind, raw.receivers, raw.write_length, host, reason)
            if code == END:
                raise StopIteration
            if deadline is not None and left <= piece:
                return None

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        event = self.next()
        assert event is not None
        return event
