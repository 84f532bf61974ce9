"""One WebSocket in the event loop of its connection: frames, commands, and the end.

The library `websockets` parses and makes frames, and this protocol moves the bytes. A socket without work has no task and
no timer of its own, because many sockets are idle.
"""

from __future__ import annotations

import asyncio
import codecs
import time
from collections import deque
from functools import partial
from typing import Any, cast

import msgspec
from django.conf import settings
from websockets.frames import CloseCode, Frame, Opcode
from websockets.protocol import State

from base.errors import NotFound, Throttled, TopicsError, Unauthorized
from http1.deadlines import NEVER
from http1.hang_up import hang_up
from http1.server import Server
from sockets import commands, frames
from sockets.command_log import CommandLog
from sockets.commands import CALLS, NO_QUERY, Command, Ping
from sockets.frames import RequestId
from sockets.lines import CommandLine
from sockets.memberships import Memberships
from sockets.protocol import FrameProtocol
from sockets.subscriptions import Subscriptions
from sockets.texts import whole_texts
from watch.outflow import UNSENT_BYTES, outflows
from watch.registry import Registry
from wire import limits, metrics
from wire.access.actor import act_for
from wire.access.keys import Key
from wire.answer import told_error
from wire.endpoint import Call
from wire.process import shutdown
from wire.process.sockets import RESET, departure
from wire.request import upload
from wire.request.turns import turns

PING_SECONDS = settings.TOPICS_WS_PING_MS / 1000
LOOK_SECONDS = 1.0  # between two looks whether a client is there, while the server does not read from it
LONGEST_MESSAGE = upload.MAX_BODY_BYTES  # of a publish. Other commands have less (commands.py)
LINGER_SECONDS = 2.0  # for the client to read the close frame and end its side
MOST_UNANSWERED = 256  # commands of one socket at once. The server reads no further command until one is answered.
COUNTED_BYTES = 64 * 1024  # of an incomplete message. From here on it counts among the bodies of this process.
# A client that compresses is read in parts, because a read of uvloop (256 KB) can become 250 MB, and a part only 4 MiB.
PART_BYTES = 4 * 1024
LONGEST_REASON = 120  # characters of a close frame's reason, which are ASCII
ROUTE = "/v0/ws"
UTF8 = codecs.getincrementaldecoder("utf-8")


class Socket(asyncio.Protocol):
    """A WebSocket and its client's key. A member of the server, of the registry of streams and of their outflows.

    `unanswered`: commands that are read and not answered. `turn`: the task of a large message that waits for its turn. `inbox`:
    messages that wait behind it, or because too many are unanswered. Meanwhile, or while the client does not take the frames
    (`is_slow`), the server does not read from the client. `unread`: bytes of a client that compresses, which are read next.
    `has_hung_up`: a side has ended, or the connection, so no command waits any longer (http1/hang_up.py).
    """

    __slots__ = (
        "arrived",
        "closing",
        "command_count",
        "counted",
        "deadline",
        "decoder",
        "has_hung_up",
        "inbox",
        "is_cut",
        "is_flush_due",
        "is_half_closed",
        "is_look_due",
        "is_lost",
        "is_part_due",
        "is_paused",
        "is_revoked",
        "is_taken_over",
        "key",
        "lines",
        "log",
        "loop",
        "memberships",
        "origin",
        "partial",
        "protocol",
        "server",
        "streams",
        "subscriptions",
        "tasks",
        "transport",
        "turn",
        "unanswered",
        "unread",
        "waiting_since",
        "was_pinged",
    )

    server: Server
    transport: asyncio.Transport

    def __init__(
        self, streams: Registry, key: Key, origin: str, protocol: FrameProtocol, log: CommandLog | None = None
    ) -> None:
        self.streams, self.key, self.origin, self.protocol, self.log = streams, key, origin, protocol, log
        self.loop = streams.hub.loop
        self.deadline = NEVER
        self.subscriptions: Subscriptions | None = None  # made with the first subscription
        self.memberships: Memberships | None = None  # made with the first join
        self.inbox: deque[bytes] = deque()
        self.lines: dict[str, CommandLine] = {}
        self.tasks: dict[int, asyncio.Task[None]] = {}  # by number. Keeps the tasks from being garbage-collected
        self.command_count = 0  # of the commands that were started: the number of the last task
        self.unread = bytearray()
        self.partial = bytearray()  # the fragments of a message
        self.decoder: codecs.IncrementalDecoder | None = None  # of a message in fragments
        self.arrived = 0  # bytes of an incomplete message in this period (mark)
        self.turn: asyncio.Task[None] | None = None
        self.counted = self.unanswered = 0
        self.waiting_since: float | None = None
        self.closing: tuple[int, str] | None = None  # code and reason of a close that waits for the last answers
        self.is_taken_over = self.is_lost = self.is_paused = self.is_cut = self.was_pinged = self.is_half_closed = False
        self.is_flush_due = self.is_part_due = self.is_look_due = self.is_revoked = self.has_hung_up = False

    # -- The transport ------------------------------------------------------------------------------------------------

    def take_over(self, server: Server, transport: asyncio.Transport, rest: bytes) -> None:
        """Begins, after the answer to the handshake. `rest`: the bytes that the client has sent behind the handshake."""
        self.server, self.transport, self.is_taken_over = server, transport, True
        self.streams.streams[self] = self.key
        outflows.add(self)
        server.enter(self)
        transport.set_protocol(self)
        transport.set_write_buffer_limits(UNSENT_BYTES)
        self.deadline = self.loop.time() + PING_SECONDS
        if transport.is_closing():
            # The connection closed before the protocol was set, so the loop does not call connection_lost.
            self.loop.call_soon(self.connection_lost, None)
        elif rest:
            self.data_received(rest)

    def data_received(self, data: bytes) -> None:
        self.was_pinged = False
        if self.protocol.has_failed():
            return
        if self.protocol.extensions:
            self.unread += data
            self.read_part()
        else:
            self.take_bytes(data)

    def read_part(self) -> None:
        """Takes the next part of `unread`. Other connections have their turn before the part behind it (work)."""
        self.is_part_due = False
        part = bytes(self.unread[:PART_BYTES])
        del self.unread[:PART_BYTES]
        if part:
            self.take_bytes(part)

    def take_bytes(self, data: bytes) -> None:
        """Takes the messages in these bytes, and begins commands."""
        if self.arrived == 0:
            self.begin_period()
        self.arrived += len(data)
        if self.is_between_frames and self.protocol.state is State.OPEN:
            texts, rest = whole_texts(data, LONGEST_MESSAGE)
            for text in texts:
                if not self.protocol.has_failed():
                    self.take_text(text)
            data = data[rest:]
        if data and not self.protocol.has_failed():
            self.read(data)
        if self.protocol.has_failed():
            self.closing = self.protocol.failure
            self.unread.clear()
        self.count_partial()
        self.mark()
        self.work()

    def read(self, data: bytes) -> None:
        """Takes the frames of these bytes, up to the first that it refuses."""
        self.protocol.receive_data(data)
        invalid = self.protocol.failure  # behind the frames that it has read
        for frame in cast(list[Frame], self.protocol.events_received()):
            self.take(frame)
            if self.protocol.failure is not invalid:
                break
        self.flush()

    def mark(self) -> None:
        """Sets the deadline for the next bytes. An incomplete message must arrive as fast as the body of an HTTP request."""
        if self.protocol.state is not State.OPEN:
            return
        limits = self.server.limits
        if self.is_between_frames or self.protocol.has_failed():
            self.arrived, self.deadline = 0, self.loop.time() + PING_SECONDS
        elif self.arrived == 0 or self.arrived >= limits.upload_grace_seconds * limits.upload_bytes_a_second:
            self.begin_period()

    def begin_period(self) -> None:
        self.arrived, self.deadline = 1, self.loop.time() + self.server.limits.upload_grace_seconds

    def eof_received(self) -> bool:
        """The client has ended its side, so no further command can arrive. The commands that have arrived are answered."""
        if self.protocol.state is not State.OPEN:
            return False  # the transport closes
        self.is_half_closed = True
        self.hang_up()
        self.closing = self.closing or (CloseCode.NORMAL_CLOSURE, "the client has ended its side")
        self.end_if_answered()
        return True

    def pause_writing(self) -> None:
        self.waiting_since = time.monotonic()
        self.pause()

    def resume_writing(self) -> None:
        self.waiting_since = None
        if self.subscriptions is not None:
            self.subscriptions.send_soon()
        if self.memberships is not None:
            self.memberships.send_soon()
        self.work()

    def connection_lost(self, error: Exception | None) -> None:
        if self.is_lost:
            return
        self.is_lost = True
        limits.bodies.release(self.counted + sum(map(len, self.inbox)))
        self.counted = 0
        self.inbox.clear()
        self.unread.clear()
        self.server.leave(self)
        outflows.remove(self)
        if self.subscriptions is not None:
            self.subscriptions.close()
        if self.memberships is not None:
            self.memberships.close()
        self.hang_up()
        self.streams.exit(self.key)
        self.end_if_answered()

    def hang_up(self) -> None:
        """Ends the waits of commands, and of those that begin later. They would wait for nobody."""
        self.has_hung_up = True
        for task in (self.turn, *self.tasks.values()):
            if task is not None:
                hang_up(task)

    # -- Messages -----------------------------------------------------------------------------------------------------

    @property
    def is_between_frames(self) -> bool:
        """Whether the next byte begins a message or a control frame between two messages."""
        return self.protocol.current_size is None and not self.protocol.reader.buffer

    def take_text(self, text: bytes) -> None:
        """Takes a message, unless the socket is closing."""
        if self.protocol.state is not State.OPEN:
            return
        try:
            if not text.isascii():
                text.decode()
        except UnicodeDecodeError:
            self.refuse_text()
        else:
            self.keep(text)

    def take(self, frame: Frame) -> None:
        """Takes a frame. The protocol itself answers pings and the close frame, and refuses invalid frames."""
        if frame.opcode is Opcode.BINARY:
            self.protocol.fail(CloseCode.UNSUPPORTED_DATA, "a command is a text frame")
        elif frame.opcode in (Opcode.TEXT, Opcode.CONT):
            if frame.fin and self.decoder is None:
                self.take_text(bytes(frame.data))
            elif self.protocol.state is State.OPEN:
                self.take_fragment(frame)

    def take_fragment(self, frame: Frame) -> None:
        """Takes a frame of a message in fragments. A fragment that is not UTF-8 is refused before the end of the message."""
        self.decoder = self.decoder or UTF8()
        try:
            self.decoder.decode(frame.data, frame.fin)
        except UnicodeDecodeError:
            self.refuse_text()
            return
        self.partial += frame.data
        if frame.fin:
            message = bytes(self.partial)
            self.partial.clear()
            self.decoder = None
            self.keep(message)

    def keep(self, message: bytes) -> None:
        """Puts a message into the inbox, or refuses it if this process holds too many bytes. They are held until its answer."""
        self.arrived = 0
        limits.bodies.release(self.counted)  # for what of the message had arrived before
        self.counted = 0
        try:
            limits.bodies.hold(len(message))
        except Throttled as error:
            self.refuse_message(error, message, time.perf_counter())
        else:
            self.inbox.append(message)

    def refuse_text(self) -> None:
        self.protocol.fail(CloseCode.INVALID_DATA, "the text is not UTF-8")

    def count_partial(self) -> None:
        """Counts the bytes of an incomplete message, and unread ones, among the bodies of this process. Closes the socket if it
        has too many."""
        size = len(self.protocol.reader.buffer) + len(self.partial) + len(self.unread)
        size = size if size >= COUNTED_BYTES else 0
        if size > self.counted:
            try:
                limits.bodies.hold(size - self.counted)
            except Throttled as error:
                self.close(CloseCode.TRY_AGAIN_LATER, error.message)
                return
        else:
            limits.bodies.release(self.counted - size)
        self.counted = size

    def work(self) -> None:
        """Begins commands, as many at once as may be unanswered. Then reads on, or waits."""
        while self.inbox and self.turn is None and self.unanswered < MOST_UNANSWERED:
            self.take_message(self.inbox.popleft())
        if self.inbox or self.turn is not None or self.is_slow:
            self.pause()
        elif self.unread:
            self.pause()
            if not self.is_part_due:
                self.is_part_due = True
                self.loop.call_soon(self.read_part)
        elif self.is_paused and not self.is_lost:
            self.is_paused = False
            self.transport.resume_reading()
        self.end_if_answered()

    def pause(self) -> None:
        """Reads no more for now. Meanwhile no byte tells that the client leaves, so the server looks."""
        if not self.is_paused and not self.is_lost:
            self.is_paused = True
            self.transport.pause_reading()
            self.look_later()

    def look_later(self) -> None:
        if not self.is_look_due:
            self.is_look_due = True
            self.loop.call_later(LOOK_SECONDS, self.look)

    def look(self) -> None:
        """Ends the waits for a client that has left while our side does not read."""
        self.is_look_due = False
        if not self.is_paused or self.is_lost:
            return
        departed = departure(self.transport)
        if departed & RESET:
            self.transport.abort()
        elif departed and not self.has_hung_up:
            self.hang_up()
        self.look_later()

    # -- Commands -----------------------------------------------------------------------------------------------------

    def take_message(self, message: bytes) -> None:
        """Begins the command of this message. A large one takes a turn before, as a body does (wire/request/turns.py)."""
        started = time.perf_counter()
        try:
            shutdown.check()
        except TopicsError as error:
            self.drop(error, message, started)
            return
        if len(message) > upload.SMALL:
            self.turn = self.loop.create_task(self.begin_in_turn(message, started))
            if self.has_hung_up:
                hang_up(self.turn)
        else:
            self.begin(message, started)

    async def begin_in_turn(self, message: bytes, started: float) -> None:
        try:
            await turns.take(self.key.holder, len(message))
            self.check_key()
        except TopicsError as error:
            self.drop(error, message, started)
        else:
            self.begin(message, started)
        self.turn = None
        self.work()

    def begin(self, message: bytes, started: float) -> None:
        """Begins a command, or puts the command into a line."""
        try:
            command = commands.read(message, self.key)
        except Exception as error:
            self.drop(error, message, started)
            return
        self.unanswered += 1
        if command.line is None:
            self.start(command, len(message), started)
            return
        line = self.lines.get(command.line)
        if line is None:
            line = self.lines[command.line] = CommandLine(self.loop)
        line.add(command.kind, partial(self.start, command, len(message), started))

    def start(self, command: Command, size: int, started: float) -> None:
        self.command_count = number = self.command_count + 1
        self.tasks[number] = task = self.loop.create_task(self.run(number, command, size, started))
        if self.has_hung_up:
            hang_up(task)

    async def run(self, number: int, command: Command, size: int, started: float) -> None:
        """Runs a command to its answer. A command runs to its end even if the client has disconnected, as with HTTP."""
        status, code, body, begun = 200, None, b"", time.perf_counter()
        try:
            with limits.under_way(self.key.holder):
                self.check_key()
                if command.op in CALLS:
                    status, body = await self.call(command, started)
                elif command.op == "subscribe":
                    await self.subscribe(command)
                elif command.op == "unsubscribe":
                    self.unsubscribe(command)
                elif command.op == "join":
                    await self.join(command)
                else:
                    self.answer(frames.answer("pong", command.request_id, self.positions(command.body)))
        except Exception as error:
            known = self.refuse(error, command.request_id)
            status, code = known.status, known.code
        finally:
            limits.bodies.release(size)
            route = f"{ROUTE} {command.op}"
            metrics.request("WS", route, status, time.perf_counter() - started)
            if self.log is not None:
                self.log.note(route, command.request_id, started, begun, status, code, body)
            self.answered(command.line)
            del self.tasks[number]  # a callback of the task would cost a step of the event loop

    def check_key(self) -> None:
        """Raises Unauthorized if the key has ended while a command waited for its turn, or in its line."""
        if self.is_revoked:
            raise Unauthorized("the key of this socket was revoked or changed, or has expired")

    async def call(self, command: Command, started: float) -> tuple[int, bytes]:
        """Runs the endpoint of HTTP for this command. Returns the status and the body of its answer."""
        _, endpoint, op, _ = CALLS[command.op]
        call: Call[Any, Any] = Call(self.key, {}, b"", b"", self.origin, started)
        call.body, call.query = command.body, NO_QUERY.get(command.op)
        act_for(call.actor)
        if command.op == "leave" and self.memberships is not None:
            self.memberships.leave(command.path, command.body.session)
        done = await self.streams.hub.store.drive(endpoint.handler(call, *command.path))
        self.answer(frames.answer(op, command.request_id, done.body))
        return done.status, done.body

    async def subscribe(self, command: Command) -> None:
        if self.is_lost:
            return
        if self.subscriptions is None:
            self.subscriptions = Subscriptions(self.streams.hub, self.key, self.send, self.may_send)
        await self.subscriptions.subscribe(command.body.watch(), command.request_id)

    def unsubscribe(self, command: Command) -> None:
        topic = command.body.topic
        if self.subscriptions is None or not self.subscriptions.drop(topic):
            raise NotFound(f"this socket does not follow {topic!r}", topic=topic)
        self.answer(frames.answer("unsubscribed", command.request_id, b'{"topic":"%b"}' % topic.encode()))

    def positions(self, ping: Ping) -> bytes:
        """Returns the body of a pong."""
        if not ping.positions:
            return b"{}"
        positions = self.subscriptions.positions() if self.subscriptions is not None else {}
        return msgspec.json.encode({"positions": positions})

    async def join(self, command: Command) -> None:
        if self.is_lost:
            return
        if self.memberships is None:
            self.memberships = Memberships(self.streams.hub, self.key, self.send, self.may_send)
        await self.memberships.join(command.body.topic, command.body.group, command.body, command.request_id)

    def answered(self, name: str | None) -> None:
        self.unanswered -= 1
        if name is not None and (line := self.lines.get(name)) is not None:
            line.ended()
            if line.is_empty:
                del self.lines[name]
        if self.inbox:
            self.work()
        else:
            self.end_if_answered()

    def drop(self, error: Exception, message: bytes, started: float) -> None:
        """Refuses a message of the inbox, and releases its bytes."""
        limits.bodies.release(len(message))
        self.refuse_message(error, message, started)

    def refuse_message(self, error: Exception, message: bytes, started: float) -> None:
        """Refuses a message that is no command, or that may not begin."""
        request_id = commands.request_id_of(message)
        known = self.refuse(error, request_id)
        metrics.request("WS", ROUTE, known.status, time.perf_counter() - started)
        if self.log is not None:
            self.log.note(ROUTE, request_id, started, started, known.status, known.code)

    def refuse(self, error: Exception, request_id: RequestId) -> TopicsError:
        """Sends the refusal of a command, and returns it."""
        known = told_error(error, self.key)
        self.answer(frames.error(known, request_id))
        return known

    # -- Sending ------------------------------------------------------------------------------------------------------

    @property
    def is_slow(self) -> bool:
        """Whether earlier frames still wait for the client."""
        return self.waiting_since is not None

    def may_send(self) -> bool:
        return not self.is_slow

    @property
    def takes_frames(self) -> bool:
        """Whether the socket is not closing."""
        return self.protocol.state is State.OPEN and not self.is_lost

    def send(self, payload: bytes) -> None:
        """Sends a text frame, unless the socket is closing."""
        if self.takes_frames:
            self.protocol.send_text(payload)
            self.flush()

    def answer(self, payload: bytes) -> None:
        """Sends the answer to a command. The answers of one step of the event loop leave in one write."""
        if self.takes_frames:
            self.protocol.send_text(payload)
            if not self.is_flush_due:
                self.is_flush_due = True
                self.loop.call_soon(self.flush)

    def flush(self) -> None:
        """Writes all frames so far, in order."""
        self.is_flush_due = False
        unsent = self.protocol.data_to_send()
        if not unsent or self.is_lost:
            return
        self.transport.write(b"".join(unsent))
        if not unsent[-1]:  # the library ends our side after a close frame
            self.linger()

    # -- The end ------------------------------------------------------------------------------------------------------

    def close(self, code: int, reason: str) -> None:
        """Sends a close frame. Then the socket ends soon, whether the client answers or not."""
        if self.takes_frames:
            self.protocol.close(code, reason[:LONGEST_REASON])
            self.flush()

    def linger(self) -> None:
        """Ends our side. To close at once could reset the connection before the client has read the close frame."""
        self.hang_up()  # no answer can follow
        self.deadline = self.loop.time() + LINGER_SECONDS
        if self.transport.can_write_eof() and not self.is_half_closed:
            self.transport.write_eof()
        else:
            self.transport.close()

    def end(self, code: str, message: str) -> None:
        """Called by the registry: the key is no longer valid, or the process is about to exit.

        Commands that the server has not begun do not run with a key that is no longer valid. At an exit, the commands that it
        has begun are answered before the close frame.
        """
        if code == Unauthorized.code:
            self.is_revoked = True
            self.send(frames.event("error", code=code, message=message))
            self.close(CloseCode.POLICY_VIOLATION, message)
        else:
            self.closing = CloseCode.GOING_AWAY, message
            self.end_if_answered()

    def end_if_answered(self) -> None:
        """After the last answer, closes a socket that is to close. A socket without its client leaves the registry only then,
        because the registry checks the key for the commands that wait."""
        if self.unanswered or self.turn is not None or self.inbox or self.unread:
            return
        if self.closing is not None:
            self.close(*self.closing)
        if self.is_lost:
            self.streams.streams.pop(self, None)

    def expire(self, now: float) -> None:
        """Called by the server after the deadline: nothing arrived for PING_SECONDS, or the socket was to end."""
        if self.protocol.state is not State.OPEN:
            self.transport.abort()
        elif self.is_paused:  # our side does not read. The kernel ends the connection of a client that takes nothing
            if self.arrived:
                self.begin_period()
            else:
                self.deadline = now + PING_SECONDS
        elif self.arrived:
            least, grace = self.server.limits.upload_bytes_a_second, self.server.limits.upload_grace_seconds
            self.close(
                CloseCode.POLICY_VIOLATION, f"the message arrived too slowly: send {least} bytes/s over {grace:g} s"
            )
        elif self.was_pinged:
            self.transport.abort()
        else:
            self.was_pinged, self.deadline = True, now + PING_SECONDS
            self.protocol.send_ping(b"")
            self.flush()

    def drain(self) -> None:
        """Called by the server, when it stops."""
        self.close(CloseCode.GOING_AWAY, "this server is shutting down")

    def abort(self) -> None:
        self.transport.abort()

    # -- Bounds (watch/outflow.py) ------------------------------------------------------------------------------------

    @property
    def waiting_bytes(self) -> int:
        return self.transport.get_write_buffer_size()

    def cut(self) -> None:
        """Ends the socket without another frame, because its client takes none."""
        self.is_cut = True
        self.transport.abort()
