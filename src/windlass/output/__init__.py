"""Answers with a type: their schema, their validation, and values of incomplete answers."""

from windlass.output.spec import OutputMethod, OutputSpec
from windlass.output.value import Accepted, OutputType, Rejected, output_type, stored_type

__all__ = [
    "Accepted",
    "OutputMethod",
    "OutputSpec",
    "OutputType",
    "Rejected",
    "output_type",
    "stored_type",
]
