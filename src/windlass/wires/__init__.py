"""Wires: pure conversion between protocol bytes and content and events, without I/O.

A wire converts to content and events, never to another wire.
"""
