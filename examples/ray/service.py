#!/usr/bin/env python3
"""A model behind Ray Serve: texts as they are written, and vectors.

    serve run --working-dir examples/ray service:app model=/path/to/model.gguf replicas=2 threads=1

    curl -N localhost:8000/generate -d '{"prompt": "Ownership is", "limit": 32}'
    curl localhost:8000/embed -d '{"text": "Ownership is"}'

Each replica is an actor with the model in it. Serve shares requests out among them, starts a replica again that dies,
and refuses with status 503 what exceeds the queue.
"""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any, AsyncIterator

import ray
from ray import serve
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse


class BadRequest(Exception):
    """What a client did wrong, in a sentence."""


# A session's memory is there before its first token: the number of requests that are computed bounds all of it.
@serve.deployment(max_ongoing_requests=4, max_queued_requests=32)
class Llama:
    def __init__(self, model: str) -> None:
        processors = ray.get_runtime_context().get_assigned_resources().get("CPU", 1)
        os.environ["IRONBRIDGE_THREADS"] = str(max(1, int(processors)))
        import ironbridge

        self.library = ironbridge
        self.model = ironbridge.Model(model)
        self.context: int = self.model.info["context"]

    async def __call__(self, request: Request) -> Response:
        routes = {"/generate": self.generate, "/embed": self.embed}
        route = routes.get(request.url.path)
        if route is None or request.method != "POST":
            return PlainTextResponse("POST /generate or POST /embed\n", 404)
        try:
            given = json.loads(await request.body())
            if not isinstance(given, dict):
                raise BadRequest("the body is no JSON object")
            return await route(given)
        except (BadRequest, ValueError) as error:
            return PlainTextResponse(f"{error}\n", 400)
        except self.library.ContextFullError as error:
            return PlainTextResponse(f"{error}\n", 413)
        except self.library.MemoryLimitError as error:
            return PlainTextResponse(f"{error}\n", 503)

    async def generate(self, given: dict[str, Any]) -> Response:
        tokens, limit = self.model.encode(text(given, "prompt")), number(given, "limit", 64)
        if len(tokens) + limit > self.context:
            return PlainTextResponse(f"{len(tokens)} tokens and {limit} are more than {self.context}\n", 413)
        session = self.model.session(context=len(tokens) + limit)
        written = session.generate(tokens, limit=limit)

        async def pieces() -> AsyncIterator[str]:
            # A client that goes away ends this within one token.
            with session, written:
                async for piece in written:
                    yield piece

        return StreamingResponse(pieces(), media_type="text/plain")

    async def embed(self, given: dict[str, Any]) -> Response:
        vector = await asyncio.to_thread(self.model.embed, text(given, "text"))
        return JSONResponse({"vector": vector.tolist()})


def text(given: dict[str, Any], name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str) or not value:
        raise BadRequest(f"{name} is no text")
    return value


def number(given: dict[str, Any], name: str, default: int) -> int:
    value = given.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise BadRequest(f"{name} is no number from 1")
    return value


def app(arguments: dict[str, str]) -> serve.Application:
    """What `serve run` and `serve build` call, with the arguments of their command line."""
    replicas, threads = int(arguments.get("replicas", 1)), int(arguments.get("threads", 1))
    deployment = Llama.options(num_replicas=replicas, ray_actor_options={"num_cpus": threads})
    return deployment.bind(os.path.abspath(arguments["model"]))
