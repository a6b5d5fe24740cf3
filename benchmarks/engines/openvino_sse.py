"""A small OpenAI-compatible server around OpenVINO GenAI: what the library hands over at once becomes one event.

    python openvino_sse.py MODEL PORT NOTES [DRAFT K]

MODEL and DRAFT are folders with a model.gguf. It serves one answer at a time, and tells counts when it is asked to.
NOTES gets one line of JSON an answer, with the number of tokens of each of those events.
"""

import asyncio
import json
import sys
from pathlib import Path

import openvino_genai as genai
import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

NAME = "smollm2"


def converted(folder):
    """The folder with the model in OpenVINO's own form: a draft model cannot be a GGUF file."""
    if not (folder / "openvino_model.xml").exists():
        genai.LLMPipeline(str(folder / "model.gguf"), "CPU", enable_save_ov_model=True)
    return str(folder)


class Steps(genai.StreamerBase):
    """Hands the tokens of each step over to the event loop."""

    def __init__(self, loop, queue):
        super().__init__()
        self._loop, self._queue = loop, queue

    def write(self, tokens):
        """Called by the engine: a token, or the tokens of a step."""
        self._hand_over(tokens if isinstance(tokens, list) else [tokens])
        return genai.StreamingStatus.RUNNING

    def end(self):
        """Called by the engine once."""
        self._hand_over(None)

    def _hand_over(self, what):
        self._loop.call_soon_threadsafe(self._queue.put_nowait, what)


def app(pipeline, k, notes):
    """The server's routes."""
    tokenizer = pipeline.get_tokenizer()

    async def events(body):
        queue = asyncio.Queue()
        config = genai.GenerationConfig()
        config.max_new_tokens, config.do_sample = body["max_tokens"], False
        if k:
            config.num_assistant_tokens = k
        loop = asyncio.get_running_loop()
        prompt = body["messages"][-1]["content"]
        work = loop.run_in_executor(None, pipeline.generate, prompt, config, Steps(loop, queue))
        running = body.get("stream_options", {}).get("continuous_usage_stats")
        tokens, steps, sent = [], [], ""
        while (new := await queue.get()) is not None:
            tokens += new
            steps.append(len(new))
            text = tokenizer.decode(tokens).rstrip("\ufffd")  # a character may be split over two steps
            yield event({"content": text[len(sent) :]}, usage=len(tokens) if running else None)
            sent = text
        await work
        finish = "length" if len(tokens) >= body["max_tokens"] else "stop"
        yield event({}, finish, usage=len(tokens))
        yield "data: [DONE]\n\n"
        with notes.open("a") as file:
            file.write(json.dumps({"steps": steps}) + "\n")

    async def chat(request):
        return StreamingResponse(events(await request.json()), media_type="text/event-stream")

    async def models(_request):
        return JSONResponse({"object": "list", "data": [{"id": NAME, "object": "model", "owned_by": "openvino"}]})

    async def health(_request):
        return JSONResponse({})

    return Starlette(
        routes=[
            Route("/v1/chat/completions", chat, methods=["POST"]), Route("/v1/models", models), Route("/health", health)
        ]
    )  # fmt: skip


def event(delta, finish=None, usage=None):
    """One event of the stream."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    payload = {"object": "chat.completion.chunk", "model": NAME, "choices": [choice]}
    if usage is not None:
        payload["usage"] = {"completion_tokens": usage}
    return f"data: {json.dumps(payload)}\n\n"


def main():
    """Load and serve."""
    model, port, notes, *draft = sys.argv[1:]
    more, k = {}, 0
    if draft:
        more, k = {"draft_model": genai.draft_model(converted(Path(draft[0])), "CPU")}, int(draft[1])
    pipeline = genai.LLMPipeline(converted(Path(model)), "CPU", **more)
    uvicorn.run(app(pipeline, k, Path(notes)), host="127.0.0.1", port=int(port), log_level="warning")


if __name__ == "__main__":
    main()
