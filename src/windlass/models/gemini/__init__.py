"""Gemini's generateContent wire, at the Gemini API and at Vertex AI.

`wire` is pure; `model` does the I/O, and brings in the HTTP library.
"""
