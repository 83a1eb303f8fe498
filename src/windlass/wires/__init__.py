"""Protocols as pure values: bytes to content and events and back, in both directions, no I/O.

A wire converts to content and events, never to another wire.
"""
