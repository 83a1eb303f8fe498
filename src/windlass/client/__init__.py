"""`AsyncClient`, and `Client`, its blocking form."""

from windlass.client.asynchronous import AsyncClient
from windlass.client.chat import AsyncChat
from windlass.client.stream import AsyncStream
from windlass.client.sync import Chat, Client, Run, Stream
from windlass.runs.run import AsyncRun

__all__ = ["AsyncChat", "AsyncClient", "AsyncRun", "AsyncStream", "Chat", "Client", "Run", "Stream"]
