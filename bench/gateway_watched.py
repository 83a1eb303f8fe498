"""The command `windlass` with a watch over the event loop of its gateway.

The longest pauses are written to the file that `BENCH_PAUSES` names. A pause of the loop is the
delay of a timer: a garbage collection, or anything else that blocked it. On a busy machine that is
often another process, so the CPU time of the loop in each pause is written too.
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
        self.longest = {"loop": 0.0, "own": 0.0, "collector": 0.0}
        self.collecting = 0.0
        self.loop = asyncio.get_running_loop()
        gc.callbacks.append(self.collected)
        self.wait()

    def wait(self) -> None:
        self.due, self.spent = self.loop.time() + TICK_SECONDS, time.thread_time()
        self.loop.call_at(self.due, self.tick)

    def tick(self) -> None:
        # Uses the clock directly: the loop's time is the time of its last wake-up.
        self.note("loop", time.monotonic() - self.due)
        self.note("own", time.thread_time() - self.spent)
        self.wait()

    def collected(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self.collecting = time.perf_counter()
        else:
            self.note("collector", time.perf_counter() - self.collecting)

    def note(self, kind: str, seconds: float) -> None:
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
