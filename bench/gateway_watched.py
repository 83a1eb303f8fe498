"""Runs the `windlass` command, and measures the pauses of the gateway's event loop.

The longest pauses are written to the file that `BENCH_PAUSES` names. A pause is the delay of a
timer, caused by a garbage collection or by anything else that blocks the loop. On a busy machine,
the cause is often another process, so the CPU time of the loop during each pause is written too.
"""

import asyncio
import gc
import json
import os
import socket
import time
from pathlib import Path

from windlass.cli import main
from windlass.gateway.serve import GatewayServer

TICK_SECONDS = 0.002


class Watch:
    def __init__(self, file: Path) -> None:
        self.file = file
        self.longest = {"loop": 0.0, "loop_cpu": 0.0, "collector": 0.0}
        self.collecting = 0.0
        self.loop = asyncio.get_running_loop()
        gc.callbacks.append(self.collected)
        self.wait()

    def wait(self) -> None:
        self.due, self.cpu_at_start = self.loop.time() + TICK_SECONDS, time.thread_time()
        self.loop.call_at(self.due, self.tick)

    def tick(self) -> None:
        # Reads the clock, because `loop.time()` may be the time of the last wake-up.
        self.record("loop", time.monotonic() - self.due)
        self.record("loop_cpu", time.thread_time() - self.cpu_at_start)
        self.wait()

    def collected(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self.collecting = time.perf_counter()
        else:
            self.record("collector", time.perf_counter() - self.collecting)

    def record(self, kind: str, seconds: float) -> None:
        if seconds > self.longest[kind]:
            self.longest[kind] = seconds
            self.file.write_text(json.dumps(self.longest))


class WatchedServer(GatewayServer):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        Watch(Path(os.environ["BENCH_PAUSES"]))


if __name__ == "__main__":
    import windlass.gateway.serve

    windlass.gateway.serve.GatewayServer = WatchedServer
    raise SystemExit(main())
