"""The options for an answer with a type, converted to its check."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from msgspec.structs import replace
from typing_extensions import TypeForm

from windlass.client.options import RunOptions
from windlass.errors import ConfigError, RunInterrupted
from windlass.loop.output import OutputCheck, OutputValidator
from windlass.output.spec import OutputSpec

if TYPE_CHECKING:
    from windlass.output.value import OutputType

T = TypeVar("T")

OutputForm: TypeAlias = type[T] | TypeForm[T]
"""A type of answers. `TypeForm` lets type checkers infer unions and literals, too."""
JsonSchema: TypeAlias = Mapping[str, Any]


def type_of(output: Any) -> "OutputType":
    """Returns the type of answers. Raises `ConfigError` if it has no JSON Schema."""
    # Imported here, because clients without types start faster.
    from windlass.output.value import output_type

    return output_type(output)


def check_of(
    output: Any, validator: OutputValidator | None, options: RunOptions
) -> OutputCheck | None:
    """Returns the check of a run; None without `output`. Raises `ConfigError`."""
    if output is None:
        if validator is not None:
            raise ConfigError("output_validator needs output=")
        return None
    if options.get("response_schema") is not None:
        raise ConfigError("output and response_schema exclude each other")
    kind = type_of(output)
    spec = replace(
        kind.spec,
        method=options.get("output_method", "auto"),
        retries=options.get("output_retries", kind.spec.retries),
        validated=validator is not None,
    )
    return OutputCheck(spec, kind, validator)


class ResumedOutputs:
    """The types and the validator that a resumed run finds its own in."""

    def __init__(self, outputs: Iterable[Any], validator: OutputValidator | None) -> None:
        self._types = [type_of(each) for each in outputs]
        self._validator = validator

    def check(self, spec: OutputSpec) -> OutputCheck:
        """Returns the check with the type of the same schema, else with the stored schema.

        Raises `RunInterrupted` if the run needs a validator and none is given.
        """
        if spec.validated and self._validator is None:
            raise RunInterrupted(
                "the run was interrupted, and its validator is missing: pass output_validator= to"
                " resume"
            )
        stored = OutputCheck.of_schema(spec)
        found = next((each for each in self._types if each.spec.schema == spec.schema), stored.type)
        return OutputCheck(spec, found, self._validator if spec.validated else None)
