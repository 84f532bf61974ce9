"""A handler of requests around another, which sees each request and its answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from http1 import Answering, Handler, Request, Response, Writer, WrittenAnswer

Note = TypeVar("Note")


class Observer(Generic[Note]):
    """Calls `began` before the handler and `ended` after it, with the result of `began`. A stream has no answer at its end."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler

    def began(self, request: Request) -> Note:
        raise NotImplementedError

    def ended(self, request: Request, answer: Response | None, note: Note) -> None:
        raise NotImplementedError

    def __call__(self, request: Request) -> Answering | Awaitable[Answering]:
        note = self.began(request)
        answering = self.handler(request)
        if isinstance(answering, Response):
            self.ended(request, answering, note)
            return answering
        if isinstance(answering, WrittenAnswer):
            return self.stream(request, answering.run, note)
        return self.call(request, answering, note)

    async def call(self, request: Request, answering: Awaitable[Answering], note: Note) -> Answering:
        answer = await answering
        if isinstance(answer, WrittenAnswer):
            return self.stream(request, answer.run, note)
        self.ended(request, answer, note)
        return answer

    def stream(self, request: Request, run: Callable[[Writer], Awaitable[None]], note: Note) -> WrittenAnswer:
        async def observed(writer: Writer) -> None:
            try:
                await run(writer)
            finally:
                self.ended(request, None, note)

        return WrittenAnswer(observed)
