"""Answers with a type: their schema, their validation, and values of incomplete answers.

`value` and `partial` import pydantic, so they are imported where they are used.
"""
