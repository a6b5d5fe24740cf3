"""A program to be recorded: CLIENT URL [PAUSE] asks for a stream and prints how many pieces of text it got."""

from __future__ import annotations

import asyncio
import sys
import time

BODY = {"model": "m", "messages": [{"role": "user", "content": "a secret prompt"}], "stream": True}
HEADERS = {"authorization": "Bearer a-secret-key"}


def main() -> None:
    name, url, pause = sys.argv[1], sys.argv[2], float(sys.argv[3]) if len(sys.argv) > 3 else 0.0
    where = f"{url}/v1/chat/completions"
    if name in ("httpx", "httpx2"):
        http = __import__(name)
        with http.stream("POST", where, json=BODY, headers=HEADERS) as answer:
            print(count(answer.iter_lines(), pause))
    elif name == "requests":
        import requests

        with requests.post(where, json=BODY, headers=HEADERS, stream=True, timeout=60) as answer:
            print(count((line.decode() for line in answer.iter_lines(chunk_size=None)), pause))
    elif name == "urllib":
        import json
        import urllib.request

        with urllib.request.urlopen(urllib.request.Request(where, json.dumps(BODY).encode(), HEADERS)) as answer:
            print(count((line.decode() for line in answer), pause))
    elif name == "aiohttp":
        asyncio.run(with_aiohttp(where))
    elif name == "openai":
        import openai

        with openai.OpenAI(base_url=f"{url}/v1", api_key="a-secret-key", max_retries=0) as client:
            print(sum(bool(e.choices[0].delta.content) for e in client.chat.completions.create(**BODY)))
    elif name == "openai async":
        asyncio.run(with_openai(url))
    elif name == "anthropic":
        import anthropic

        with (
            anthropic.Anthropic(base_url=url, api_key="a-secret-key", max_retries=0) as client,
            client.messages.stream(model="simulated", max_tokens=20, messages=BODY["messages"]) as stream,
        ):
            print(len(list(stream.text_stream)))
    elif name == "ollama":
        import ollama

        client = ollama.Client(host=url, headers=HEADERS)
        lines = client.chat("simulated", BODY["messages"], options={"num_predict": 20}, stream=True)
        print(sum(bool(line.message.content) for line in lines))


def count(lines, pause):
    found = 0
    for line in lines:
        if '"content"' in line:
            found += 1
            time.sleep(pause)
    return found


async def with_aiohttp(where):
    import aiohttp

    async with aiohttp.ClientSession() as session, session.post(where, json=BODY, headers=HEADERS) as answer:
        print(sum(['"content"' in line.decode() async for line in answer.content]))


async def with_openai(url):
    import openai

    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="a-secret-key", max_retries=0) as client:
        events = await client.chat.completions.create(**BODY)
        print(sum([bool(e.choices[0].delta.content) async for e in events]))


if __name__ == "__main__":
    main()
