"""The demo's calculator: arithmetic as people and small models write it. Pure."""

import ast
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

MAX_CHARS = 200
_MAX_POWER = 1000
_MAX_BASE = 1e9
_MAX_FACTORIAL = 170
_SIGNIFICANT_DIGITS = 12
SUPPORTED = (
    "only numbers, + - * / ^ %, brackets, sqrt, abs, round, min, max, log, ln, exp, sin, cos, tan,"
    " pi and e are supported"
)


_WORDS = re.compile(r"[a-z]+\s+[a-z]+", re.IGNORECASE)
_WORDS_FOUND = "it has words; get their numbers with another function first, then use the numbers"


class NotArithmetic(Exception):
    """The text cannot be calculated; the message says why."""


def value_of(text: str) -> int | float:
    """Returns the value of an expression, such as `15% of 80` or `sqrt(2) * 3`.

    Raises `NotArithmetic`.
    """
    if len(text) > MAX_CHARS:
        raise NotArithmetic(f"it is longer than {MAX_CHARS} characters")
    try:
        return _rounded(_value(ast.parse(_python(text), mode="eval").body))
    except ZeroDivisionError:
        raise NotArithmetic("a division by zero") from None
    except OverflowError:
        raise NotArithmetic("the number is too large") from None
    except SyntaxError:
        raise NotArithmetic(_WORDS_FOUND if _WORDS.search(text) else SUPPORTED) from None
    except (TypeError, ValueError) as error:
        raise NotArithmetic(str(error)) from None


_SIGNS = str.maketrans(
    {"\N{MULTIPLICATION SIGN}": "*", "\N{MIDDLE DOT}": "*", "\N{DIVISION SIGN}": "/"}
    | {"\N{MINUS SIGN}": "-", "\N{EN DASH}": "-", "[": "(", "]": ")", "{": "(", "}": ")"}
)
_UNITS = (
    r"grams?|kilograms?|kg|pounds?|lbs?|ounces?|oz|kilomet(?:er|re)s?|km|miles?|met(?:er|re)s?|cm|mm"
    r"|inch(?:es)?|feet|foot|hours?|minutes?|seconds?|days?|lit(?:er|re)s?|euros?|dollars?|people"
    r"|(?:degrees? )?(?:celsius|fahrenheit)|degrees?"
)
"""Words after a number that the result keeps the same."""
_NUMBER = r"(?:\d+\.?\d*|\.\d+)"
_OPERAND = rf"(?:{_NUMBER}|\([^()]*\)|[a-z]+\([^()]*\))"
_REWRITES: tuple[tuple[str, str], ...] = (
    (r"^(what is|what's|how much is|calculate|compute|evaluate)\b", ""),
    (r"[=?]+\s*$", ""),
    (r"[$\N{EURO SIGN}\N{POUND SIGN}]", ""),
    (r"(?<=\d)[,_'](?=\d{3}(?!\d))", ""),
    (rf"(?<=\d)\s*(?:{_UNITS})\b", ""),
    (r"(?<=\d)\s*(percent|per cent)\b", "%"),
    (r"\b(the )?square root of\s*", "sqrt "),
    (r"\N{SQUARE ROOT}\s*", "sqrt "),
    (rf"\bsqrt\s+({_NUMBER})", r"sqrt(\1)"),
    (r"\bsqrt\s+\(", "sqrt("),
    (r"\s*\bsquared\b", " ** 2"),
    (r"\s*\bcubed\b", " ** 3"),
    (r"\N{SUPERSCRIPT TWO}", " ** 2"),
    (r"\N{SUPERSCRIPT THREE}", " ** 3"),
    (r"\b(raised )?to the power of\b|\^", "**"),
    (r"\b(multiplied by|times)\b", "*"),
    (r"(?<=\d)\s*x\s*(?=[\d(])", "*"),
    (r"\bdivided by\b", "/"),
    (r"\bplus\b", "+"),
    (r"\bminus\b", "-"),
    (r"\bhalf of\b", "0.5 *"),
    (r"\btwice\b|\bdouble\b", "2 *"),
    (r"\b(modulo|mod)\b", "%"),
    (rf"({_NUMBER})\s*!", r"factorial(\1)"),
    # A percentage of something, off or on something, or alone. `7 % 2` stays a remainder.
    (rf"({_NUMBER})\s*%\s*of\b", r"(\1/100) *"),
    (rf"({_NUMBER})\s*%\s*off\s+({_OPERAND})", r"(\2 * (1 - \1/100))"),
    (rf"({_OPERAND})\s*([+-])\s*({_NUMBER})\s*%(?!\s*[\w(.])", r"(\1 * (1 \2 \3/100))"),
    (rf"({_NUMBER})\s*%(?!\s*[\w(.])", r"(\1/100)"),
    (r"(?<![\d.])0+(?=\d)", ""),
)
_COMPILED = tuple((re.compile(pattern), replacement) for pattern, replacement in _REWRITES)


def _python(text: str) -> str:
    """Rewrites the text as a Python expression."""
    plain = text.strip().lower().translate(_SIGNS)
    for pattern, replacement in _COMPILED:
        plain = pattern.sub(replacement, plain)
    return plain.strip()


def _factorial(number: float) -> int:
    if number != int(number) or not 0 <= number <= _MAX_FACTORIAL:
        raise ValueError(f"a factorial needs a whole number from 0 to {_MAX_FACTORIAL}")
    return math.factorial(int(number))


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "abs": abs,
    "ceil": math.ceil,
    "cos": math.cos,
    "exp": math.exp,
    "factorial": _factorial,
    "floor": math.floor,
    "ln": math.log,
    "log": math.log10,
    "log10": math.log10,
    "max": max,
    "min": min,
    "round": round,
    "sin": math.sin,
    "sqrt": math.sqrt,
    "tan": math.tan,
}
_CONSTANTS = {"pi": math.pi, "e": math.e}


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return number
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return +_value(operand)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.BinOp(left=left, op=op, right=right):
            return _joined(op, _value(left), _value(right))
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=args, keywords=[]):
            if name not in _FUNCTIONS:
                raise ValueError(f"unknown function {name!r}; {SUPPORTED}")
            return _called(name, [_value(each) for each in args])
        case _:
            raise ValueError(_unsupported(node))


def _unsupported(node: ast.expr) -> str:
    has_words = any(isinstance(each, ast.Name) for each in ast.walk(node))
    return _WORDS_FOUND if has_words else SUPPORTED


def _called(name: str, values: list[Any]) -> int | float:
    if name == "round" and len(values) == 2:
        return round(values[0], int(values[1]))
    if name in ("min", "max") and len(values) == 1:
        return values[0]
    return _FUNCTIONS[name](*values)


def _joined(op: ast.operator, left: Any, right: Any) -> Any:
    match op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.Div():
            return left / right
        case ast.FloorDiv():
            return left // right
        case ast.Mod():
            return left % right
        case ast.Pow():
            if abs(right) > _MAX_POWER or abs(left) > _MAX_BASE:
                raise OverflowError
            return left**right
        case _:
            raise ValueError(SUPPORTED)


def _rounded(value: Any) -> int | float:
    """Rounds away the error of binary fractions, so that 0.1 + 0.2 is 0.3."""
    if isinstance(value, complex):
        raise TypeError("the result is not a real number")
    if isinstance(value, int):
        if abs(value) >= 10**30:
            raise OverflowError
        return value
    if not math.isfinite(value):
        raise OverflowError
    digits = float(f"{value:.{_SIGNIFICANT_DIGITS}g}")
    return int(digits) if digits == int(digits) and abs(digits) < 1e15 else digits
