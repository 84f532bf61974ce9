"""A callback server for the benchmark. It counts events and measures their delays. Run it as a process: `callbacks.py PORT`."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter

counts: Counter[str] = Counter()
delays: dict[str, list[float]] = {}  # ms, by topic


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            method, path, _ = head.split(b" ", 2)
            name = path.decode().strip("/")
            length = next(
                (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
            )
            body = await reader.readexactly(length)
            answer = b""
            if method == b"GET":
                answer = json.dumps(dict(counts) if name == "counts" else delays).encode()
                if name == "delays":
                    delays.clear()
            elif name.startswith("hang"):
                await asyncio.sleep(3600)
            else:
                note(name, body)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(answer), answer))
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


def note(name: str, body: bytes) -> None:
    now = time.time()
    if b'"at":' in body:
        told = json.loads(body)
        events = told if isinstance(told, list) else told.get("records", [told])
        counts[name] += len(events)
        for each in events:
            delays.setdefault(each["topic"], []).append((now - each["data"]["at"]) * 1000)
    else:  # counts as fast as possible, because the benchmark does not measure this server
        counts[name] += body.count(b'"$seq":') or body.count(b'{"topic":')


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]), limit=2**24)
    await server.serve_forever()


asyncio.run(main())
