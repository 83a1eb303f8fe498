"""Workers: processes that offer their functions to gateways as tools, over NATS."""

from windlass.worker.worker import Worker, call_host, call_host_async, serve

__all__ = ["Worker", "call_host", "call_host_async", "serve"]
