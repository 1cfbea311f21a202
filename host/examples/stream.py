# SPDX-License-Identifier: Apache-2.0
"""Files over RC queue pairs: RDMA WRITE of a chunk into the receiver's memory, then a SEND that describes it.

The receiver's memory has two halves, used in turn, and the receiver has one receive posted, which it posts again when
it has taken a chunk out of its half. So SEND k+1 is not accepted before chunk k is taken, and WRITE k+2, which
overwrites chunk k, comes after SEND k+1: RNR NAKs delay the source, and no other flow control is needed. That holds
for each receiver of a group on its own.
"""

import hashlib
import os
import struct
from pathlib import Path

# Magic, offset in the memory, bytes, position in the file, size of the file, SHA-256 of the file up to here, bytes of
# the name, and whether another file follows; then the name.
TRAILER = struct.Struct("!8sQQQQ32sHB")
MAGIC = b"CANOPYX1"
TRAILER_MAX = 1024
HALVES = 2


class Corrupt(Exception):
    """The received data differs from the data sent."""


class Lane:
    """A queue pair with the address of its WRITEs: a group's base, or one receiver's memory."""

    def __init__(self, qp, va, rkey):
        self.qp, self.va, self.rkey = qp, va, rkey


class Source:
    """Sends files on every lane: one lane to a group is multicast, N lanes to N receivers are N unicasts."""

    def __init__(self, device, room, idle):
        """`room`: bytes that every receiver has registered."""
        self.half = room // HALVES
        if not self.half:
            raise ValueError(f"the receivers have {room} bytes registered: RDMA WRITE is not possible")
        self.data = device.memory(HALVES * self.half)
        self.trailers = device.memory(HALVES * TRAILER_MAX)
        self.idle, self.number = idle, 0

    def send(self, files, lanes, progress):
        """Sends the files in order and waits until all of it is acknowledged; `progress(bytes)` per chunk."""
        self.number = 0
        posted = []
        for index, path in enumerate(files):
            digest, position, size = hashlib.sha256(), 0, path.stat().st_size
            with open(path, "rb") as file:
                while True:
                    if len(posted) == HALVES:
                        self._acknowledged(posted.pop(0), lanes, progress)
                    chunk = file.read(self.half)
                    digest.update(chunk)
                    last = position + len(chunk) == size
                    more = not last or index + 1 < len(files)
                    self._post(chunk, position, size, digest.digest(), path.name, more, lanes)
                    posted.append((self.number, len(chunk)))
                    position += len(chunk)
                    self.number += 1
                    if last:
                        break
                    if not chunk:
                        raise Corrupt(f"{path} became shorter while it was sent")
        for chunk in posted:
            self._acknowledged(chunk, lanes, progress)

    def _post(self, chunk, position, size, digest, name, more, lanes):
        at, trailer_at = self.number % HALVES * self.half, self.number % HALVES * TRAILER_MAX
        name = name.encode()
        trailer = TRAILER.pack(MAGIC, at, len(chunk), position, size, digest, len(name), more) + name
        if chunk:
            self.data.write(chunk, len(chunk), at)
        self.trailers.write(trailer, len(trailer), trailer_at)
        for lane in lanes:
            if chunk:
                lane.qp.write(2 * self.number, self.data, at, len(chunk), lane.va + at, lane.rkey)
            lane.qp.send(2 * self.number + 1, self.trailers, trailer_at, len(trailer))

    def _acknowledged(self, posted, lanes, progress):
        """Every receiver has taken the chunk: its half may be filled again."""
        number, length = posted
        for lane in lanes:
            while lane.qp.completion(self.idle)[0] != 2 * number + 1:
                pass
        progress(length)


class Sink:
    """Receives files over one queue pair."""

    def __init__(self, device, qp, room, idle):
        self.qp, self.room, self.idle = qp, room, idle
        self.data = device.memory(room, remote=True)
        self.trailer = device.memory(TRAILER_MAX)

    def start(self):
        """Must be called before the queue pair is connected."""
        self._post()

    def _post(self):
        self.qp.receive(0, self.trailer, 0, TRAILER_MAX)

    def receive(self, folder):
        """Yields (name, bytes, SHA-256) per file, which is then complete in `folder`; without a folder it is only
        checked."""
        more, file = True, None
        try:
            while more:
                length = self.qp.completion(self.idle)[1]
                at, length, position, size, expected, name, more = self._read(length)
                if position == 0:
                    file = Incoming(folder, name)
                if file is None or (file.name, file.position) != (name, position):
                    raise Corrupt(f"{name} continues at {position}, which does not follow the chunk before")
                file.add(self.data.read(length, at) if length else b"")
                if file.digest.digest() != expected:
                    raise Corrupt(f"{name}: the SHA-256 of its first {file.position} bytes is not the source's")
                if file.position == size:
                    done = file.finish()
                    # Before the next receive is posted: data that the source sees as acknowledged with the next chunk
                    # is on disk.
                    file = None
                    self._post_if(more)
                    yield name, size, done
                else:
                    self._post_if(more)
        finally:
            if file:
                file.discard()

    def _post_if(self, more):
        if more:
            self._post()

    def _read(self, length):
        raw = self.trailer.read(length, 0)
        magic, at, length, position, size, digest, name_length, more = TRAILER.unpack_from(raw)
        name = raw[TRAILER.size : TRAILER.size + name_length].decode()
        # A name with a path could leave the folder.
        if magic != MAGIC or at + length > self.room or position + length > size or Path(name).name != name:
            raise Corrupt(f"the source uses another protocol, or sent an invalid trailer: {raw[:64].hex()}")
        return at, length, position, size, digest, name, bool(more)


class Incoming:
    """A file that is being received: under a temporary name until it is complete."""

    def __init__(self, folder, name):
        self.name, self.position, self.digest = name, 0, hashlib.sha256()
        self.path = Path(folder) / name if folder else None
        self.part = self.path.with_name(f".{name}.part") if folder else None
        self.file = open(self.part, "wb") if folder else None

    def add(self, chunk):
        self.digest.update(chunk)
        self.position += len(chunk)
        if self.file:
            self.file.write(chunk)

    def finish(self):
        """The content is on disk before the file gets its name; returns its SHA-256."""
        if self.file:
            self.file.flush()
            os.fsync(self.file.fileno())
            self.file.close()
            self.part.rename(self.path)
        return self.digest.hexdigest()

    def discard(self):
        """Removes an incomplete file."""
        if self.file:
            self.file.close()
            self.part.unlink(missing_ok=True)
