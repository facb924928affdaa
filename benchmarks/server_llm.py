"""How many requests a second go through `ServerLLM`, and whether sockets, threads or memory leak.

    python -m benchmarks.server_llm
    python -m benchmarks.server_llm --requests 10000 --concurrency 32

The server, a process of its own on the loopback device, answers every prompt with its last words, so that nothing but
the client is measured. It prints file descriptors, threads and resident memory after each half of the requests, and the
requests per second with many at a time and with one at a time, with their ratio.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from mrag_rl.generation import Prompt
from mrag_rl.generation.server_llm import ServerLLM

MODEL = "echo"


class Echo(BaseHTTPRequestHandler):
    """The last words of every prompt, as a completion."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def log_message(self, *arguments: Any) -> None:
        """Nothing: a line for each request would be most of the work."""

    def do_GET(self) -> None:
        self.answer({"data": [{"id": MODEL, "max_model_len": 4096}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = " ".join(body.get("prompt", "").split()[-9:-1])
        self.answer({"choices": [{"text": text, "finish_reason": "stop"}], "usage": {"completion_tokens": 8}})

    def answer(self, value: dict[str, Any]) -> None:
        content = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()


def serve(pipe: Connection) -> None:
    """Serve on a free port, which is sent through the pipe, until the process is ended."""

    class Server(ThreadingHTTPServer):
        request_queue_size = 512

    server = Server(("127.0.0.1", 0), Echo)
    pipe.send(server.server_address[1])
    server.serve_forever()


def held() -> str:
    """What this process holds."""
    gc.collect()
    files = len(os.listdir("/proc/self/fd"))
    memory = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    return f"{files} file descriptors, {threading.active_count()} threads, {memory:.0f} MiB"


def rate(llm: ServerLLM, name: str, requests: int) -> float:
    """Requests per second of one call with as many prompts."""
    prompts = [Prompt("dialogue", f"This is text {name} {i} and it ends with these few words") for i in range(requests)]
    begun = time.perf_counter()
    texts = llm.generate(prompts, max_new_tokens=16)
    seconds = time.perf_counter() - begun
    assert all(f"text {name}" not in text and text for (text,) in texts)
    return requests / seconds


def main() -> None:
    """Print what is held before and after, and the rates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10000, help="requests to measure")
    parser.add_argument("--concurrency", type=int, default=32, help="most requests at a time")
    arguments = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=serve, args=(there,), daemon=True)
    process.start()
    try:
        url = f"http://127.0.0.1:{here.recv()}"
        llm = ServerLLM.connect(url, MODEL, concurrency=arguments.concurrency)
        print(f"before: {held()}", flush=True)
        rates = []
        for half in ("first", "second"):
            rates.append(rate(llm, half, arguments.requests // 2))
            print(f"after the {half} {arguments.requests // 2:,}: {held()}", flush=True)
        together = sum(rates) / 2
        alone = rate(ServerLLM.connect(url, MODEL, concurrency=1), "one", max(1, arguments.requests // 20))
        print(
            f"{together:,.0f} requests/s with {arguments.concurrency} at a time, {alone:,.0f} one at a time: ", end=""
        )
        print(f"ratio {together / alone:.2f}")
    finally:
        process.terminate()
        process.join()


if __name__ == "__main__":
    main()
