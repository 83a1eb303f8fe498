"""The chat-completions wire: OpenAI and every server that speaks like it.

`wire` is pure; `model` does the I/O, and brings in the HTTP library.
"""
