"""Random JSON values: any value, and values that match a schema."""

import datetime
from typing import Any

from hypothesis import strategies as st

any_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)

_FORMATS = {
    "date": st.dates().map(str),
    "date-time": st.datetimes(timezones=st.just(datetime.UTC)).map(lambda t: t.isoformat()),
    "time": st.times().map(str),
    "duration": st.integers(0, 10**6).map(lambda n: f"PT{n}S"),
    "uuid": st.uuids().map(str),
    "path": st.text("abc/._", min_size=1, max_size=9),
}
_PATTERNS = {r"^-?[0-9]{1,18}$": st.integers(-(10**17), 10**17).map(str)}


def values_of(schema: dict[str, Any], root: dict[str, Any] | None = None) -> st.SearchStrategy[Any]:
    """Returns a strategy for values that match the schema. Supports the keywords of our tools."""
    root = schema if root is None else root
    if "$ref" in schema:
        target = root["$defs"][schema["$ref"].removeprefix("#/$defs/")]
        return st.deferred(lambda: values_of(target, root))
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return st.one_of(*(values_of(option, root) for option in schema[key]))
    match schema.get("type"):
        case None:
            return any_json
        case "null":
            return st.none()
        case "boolean":
            return st.booleans()
        case "integer":
            return _integers(schema)
        case "number":
            return _integers(schema) | _floats(schema)
        case "string":
            return _strings(schema)
        case "array":
            return _arrays(schema, root)
        case "object":
            return _objects(schema, root)
        case other:
            raise AssertionError(other)


def _integers(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    low = schema.get("minimum", schema.get("exclusiveMinimum", -1 - 10**30) + 1)
    high = schema.get("maximum", schema.get("exclusiveMaximum", 1 + 10**30) - 1)
    whole = st.integers(int(low), int(high))
    # 3.0 is an integer to JSON Schema, and so it is to some models.
    return whole | whole.filter(lambda n: abs(n) < 2**53).map(float)


def _floats(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    return st.floats(
        schema.get("minimum", schema.get("exclusiveMinimum")),
        schema.get("maximum"),
        exclude_min="exclusiveMinimum" in schema,
        allow_nan=False,
        allow_infinity=False,
    )


def _strings(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    if "format" in schema:
        return _FORMATS[schema["format"]]
    if "pattern" in schema:
        return st.from_regex(schema["pattern"], fullmatch=True)
    return st.text(min_size=schema.get("minLength", 0), max_size=schema.get("maxLength", 12))


def _arrays(schema: dict[str, Any], root: dict[str, Any]) -> st.SearchStrategy[Any]:
    if "prefixItems" in schema:
        return st.tuples(*(values_of(item, root) for item in schema["prefixItems"])).map(list)
    low, high = schema.get("minItems", 0), schema.get("maxItems", 4)
    return st.lists(
        values_of(schema.get("items", {}), root),
        min_size=low,
        max_size=max(low, high),
        unique_by=_sameness if schema.get("uniqueItems") else None,
    )


def _sameness(value: Any) -> Any:
    """For JSON Schema, 1 and 1.0 are the same number, and true is no number."""
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else repr(value)


def _objects(schema: dict[str, Any], root: dict[str, Any]) -> st.SearchStrategy[Any]:
    required = schema.get("required", [])
    properties = schema.get("properties", {})
    known = st.fixed_dictionaries(
        {name: values_of(properties[name], root) for name in required},
        optional={n: values_of(s, root) for n, s in properties.items() if n not in required},
    )
    more = schema.get("additionalProperties", True)
    if more is False:
        return known
    pattern = schema.get("propertyNames", {}).get("pattern")
    names = _PATTERNS[pattern] if pattern else st.text(max_size=5)
    other = st.dictionaries(names, values_of({} if more is True else more, root), max_size=2)
    return st.tuples(other, known).map(lambda both: {**both[0], **both[1]})
