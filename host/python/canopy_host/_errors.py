# SPDX-License-Identifier: Apache-2.0
"""One exception per CANOPY_E_* of canopy_host.h."""

from __future__ import annotations

from typing import Dict, Type


class CanopyError(Exception):
    """A call failed; the text names the remedy. `code` is CANOPY_E_*, `field` the argument that is wrong, else
    empty."""

    code = 0

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field


class SocketError(CanopyError):
    """The agent's socket cannot be opened."""

    code = 1


class InvalidArgument(CanopyError):
    """An argument is wrong; `field` names it."""

    code = 2


class NotPermitted(CanopyError):
    """This user may not call the agent, or the membership is another user's."""

    code = 3


class NoSuchGroup(CanopyError):
    """There is no such group, or it was deleted."""

    code = 4


class AlreadyJoined(CanopyError):
    """The host is in the group already, with other content: leave first."""

    code = 5


class GroupFailed(CanopyError):
    """The stall policy stopped the group: every member has to leave before it can be used again."""

    code = 6


class NotPossible(CanopyError):
    """The group's state does not permit this."""

    code = 7


class LimitReached(CanopyError):
    """A limit of the agent or the controller."""

    code = 8


class Unavailable(CanopyError):
    """No answer in time; repeating the request is safe."""

    code = 9


class TimedOut(CanopyError):
    """The group is not ready in time."""

    code = 10


class ProtocolError(CanopyError):
    """The versions of agent and library do not fit."""

    code = 11


class InternalError(CanopyError):
    """A fault of the agent, the controller or the library."""

    code = 12


BY_CODE: Dict[int, Type[CanopyError]] = {kind.code: kind for kind in CanopyError.__subclasses__()}
END = 13
