"""Programs: the calls that a request needs, as lines of Python. Pure.

A small model that is trained on code writes `price = get_price(symbol="A")` and then
`convert(amount=price)` far better than it chooses one call after another. `grammar_of` keeps it to
the functions that are offered, and `Program` reads what it wrote. Nothing is executed.
"""

import ast
import keyword
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, cast

from msgspec import Struct
from msgspec.structs import replace

from windlass.content import FunctionCall, FunctionDeclaration, Schema
from windlass.emulation.forms import form_rule
from windlass.emulation.prompt import quoted
from windlass.jsontext import compact_json
from windlass.schema import referenced

NO_CALL = "none"
"""What the model writes if no call is needed."""
DONE = "done"
"""What the model writes after the last call."""
MAX_STEPS = 12
_MAX_DESCRIPTION_CHARS = 400
_MAX_PARAMETER_CHARS = 240
_MAX_CHOICES = 40
_MAX_FIELDS = 20
_TYPES = {
    "array": "list",
    "boolean": "bool",
    "integer": "int",
    "null": "None",
    "number": "float",
    "object": "dict",
    "string": "str",
}


class OfferedFunction:
    """A function as Python sees it: its name and its parameters are identifiers."""

    def __init__(self, tool: FunctionDeclaration, name: str) -> None:
        self.tool, self.name = tool, name
        root = referenced(tool.parameters, tool.parameters)
        properties = cast("dict[str, Any]", root.get("properties") or {})
        required = set(cast("list[str]", root.get("required") or ()))
        self._schemas: dict[str, Schema] = {
            each: referenced(cast("Schema", schema), tool.parameters)
            if isinstance(schema, dict)
            else {}
            for each, schema in properties.items()
        }
        ordered = sorted(self._schemas, key=lambda each: each not in required)
        self.required = required & set(ordered)
        self.parameters = dict(zip(_identifiers(ordered), ordered, strict=True))
        """The parameters' own names by their identifiers, the required ones first."""

    @property
    def optional(self) -> list[str]:
        """The parameters' own names, without the required ones."""
        return [each for each in self.parameters.values() if each not in self.required]

    def schema(self, parameter: str) -> Schema:
        return self._schemas.get(parameter, {})

    def definition(self) -> str:
        """Returns the function without a body, with its description."""
        parameters = [
            f"{name}: {_type(self.schema(own))}"
            + ("" if own in self.required else f" = {_python(self.schema(own).get('default'))}")
            for name, own in self.parameters.items()
        ]
        lines = [_line(self.tool.description, _MAX_DESCRIPTION_CHARS)]
        for name, own in self.parameters.items():
            lines += _descriptions(name, self.schema(own))
        text = "\n    ".join(line for line in lines if line)
        return f'def {self.name}({", ".join(parameters)}):\n    """{text}"""'

    def argument_rule(self, parameter: str) -> str:
        """The grammar of a parameter with its value."""
        [name] = [each for each, own in self.parameters.items() if own == parameter]
        schema = self.schema(parameter)
        if "format" in parameter.lower():
            # Its description names the form of what the function returns.
            schema = {**schema, "description": ""}
        return f"{_literal(f'{name}=')} ({_value_rule(schema)})"

    def choices(self, parameter: str) -> list[str]:
        """The texts of an enum; none if the parameter has no enum of texts."""
        return _choices(self.schema(parameter))


def offered_functions(tools: Sequence[FunctionDeclaration]) -> list[OfferedFunction]:
    names = _identifiers([tool.name for tool in tools])
    return [OfferedFunction(tool, name) for tool, name in zip(tools, names, strict=True)]


def grammar_of(
    functions: Sequence[OfferedFunction],
    first: Sequence[str] | None = None,
    *,
    one: Literal["step", "call"] | None = None,
) -> str:
    """Returns a grammar (GBNF) that allows `none` and calls of these functions.

    With `first`, the program begins with a call of one of these. With `one`, it has one call,
    with a comment (`step`) or without one (`call`).
    """
    root = f"root ::= {one}" if one else _ROOT if first is None else _FIRST
    rules = [root, _LINES, _VALUES]
    if first is not None:
        starts = [f"c{index}" for index, each in enumerate(functions) if each.name in first]
        rules.append(f'start ::= comment name " = " ({" | ".join(starts)})')
    for index, function in enumerate(functions):
        rules.append(f"c{index} ::= {_call_rule(function, f'o{index}')}")
        if function.optional:
            rules.append(
                f"o{index} ::= {' | '.join(map(function.argument_rule, function.optional))}"
            )
    rules.append(f"any ::= {' | '.join(f'c{index}' for index in range(len(functions)))}")
    return "\n".join(rules)


def argument_grammar(function: OfferedFunction, parameters: Iterable[str]) -> str:
    """Returns a grammar that allows an argument for one of these parameters, and the end of the
    call."""
    return f'root ::= " " ({" | ".join(map(function.argument_rule, parameters))}) ")"\n{_VALUES}'


_STEPS = f'("\\n" comment? call){{0,{MAX_STEPS - 1}}} "\\n{DONE}"'
_ROOT = f'root ::= "{NO_CALL}" | step {_STEPS}'
_FIRST = f"root ::= start {_STEPS}"
_LINES = r"""step ::= comment call
comment ::= "# " [^\n<>]{1,160} "\n"
call ::= name " = " any"""
_VALUES = r"""name ::= [a-z_] [a-z0-9_]{0,30}
expr ::= term (" "? op " "? term){0,8}
term ::= one | list | dict | "(" expr ")"
text ::= one (" "? op " "? one){0,8}
one ::= "f"? string | number | reference | "str(" reference ")" | "(" text ")"
sum ::= addend (" "? op " "? addend){0,8}
addend ::= number | reference | "(" sum ")"
op ::= "+" | "-" | "*" | "/" | "**" | "//" | "%"
reference ::= [a-zA-Z_] [a-zA-Z0-9_]{0,40} index{0,4}
index ::= "[" (string | [0-9]{1,4}) "]" | "." name
flag ::= "True" | "False" | "None"
list ::= "[" (expr (", " expr){0,60})? "]"
dict ::= "{" (string ": " expr (", " string ": " expr){0,40})? "}"
string ::= "\"" ([^"\\\n] | "\\" [^\n])* "\""
number ::= "-"? [0-9]{1,20} ("." [0-9]{1,20})? ("e" "-"? [0-9]{1,3})?"""
_RULES = {
    "array": "list | reference",
    "boolean": "flag",
    "integer": "sum",
    "number": "sum",
    "object": "dict | reference",
    "string": "text",
}
"""What a parameter of each type may be. A text for a city is not a list of two."""


def _call_rule(function: OfferedFunction, optional: str) -> str:
    """The rule for a call: the required arguments in their order, then optional ones in any."""
    required = [each for each in function.parameters.values() if each in function.required]
    given = ' ", " '.join(map(function.argument_rule, required))
    rest = len(function.parameters) - len(required)
    if rest and required:
        given += f' (", " {optional}){{0,{rest}}}'
    elif rest:
        given = f'({optional} (", " {optional}){{0,{rest - 1}}})?'
    return f'{_literal(f"{function.name}(")} {given} ")"'


def _value_rule(schema: Schema) -> str:
    """The rule for the values of a parameter."""
    default = schema.get("default")
    own = [_python(default)] if isinstance(default, str) else []
    if choices := _choices(schema):
        # A default is often no value of the enum, such as "all".
        texts = dict.fromkeys([*(f'"{choice}"' for choice in choices), *own])
        return " | ".join(map(_literal, texts))
    if numbers := _numbers(schema):
        return " | ".join(_literal(str(each)) for each in numbers)
    kind, items = schema.get("type"), schema.get("items")
    if kind == "string" and (form := form_rule(str(schema.get("description") or ""))):
        return " | ".join([form, "reference", *map(_literal, own)])
    if kind == "array" and isinstance(items, dict):
        inner = f"({_value_rule(cast('Schema', items))})"
        return f'"[" ({inner} (", " {inner}){{0,60}})? "]" | reference'
    return _RULES.get(str(kind), "expr")


def _choices(schema: Schema) -> list[str]:
    """The texts of an enum; none if the schema has no enum of texts."""
    values = schema.get("enum")
    if not isinstance(values, list) or len(cast("list[Any]", values)) > _MAX_CHOICES:
        return []
    texts = [each for each in cast("list[Any]", values) if isinstance(each, str)]
    plain = all(each.isprintable() and not set(each) & set('"\\') for each in texts)
    return texts if plain and len(texts) == len(cast("list[Any]", values)) else []


def _numbers(schema: Schema) -> list[float]:
    """The numbers of an enum; none if the schema has no enum of numbers."""
    values = cast("list[Any]", schema.get("enum") or [])
    return values if len(values) <= _MAX_CHOICES and all(map(is_number, values)) else []


class Unresolved(Exception):
    """A value that is not known: of a step that was not made, or one of several in a result."""


class ProgramStep(Struct, frozen=True):
    """One line: a variable, and the call whose result it has."""

    variable: str
    function: OfferedFunction
    arguments: dict[str, ast.expr]
    """The parameters' own names, and what the model wrote for them."""
    needs: frozenset[str]
    """The variables of earlier steps that the arguments contain."""
    line: str
    purpose: str = ""
    """The comment in front of the line."""
    doubts: Mapping[str, float] = {}
    """How likely the end of the call was in place of each argument."""
    end: float = 0.0
    """How likely the end of the program was in place of this step."""

    @property
    def text(self) -> str:
        """The line with its comment."""
        return f"# {self.purpose}\n{self.line}" if self.purpose else self.line

    def with_argument(self, text: str) -> "ProgramStep | None":
        """The step with a further argument, ` name=value)`; None if it is none."""
        line = f"{self.line.removesuffix(')')},{text}"
        longer = Program.read(line, [self.function]).steps
        if not longer or len(longer[0].arguments) != len(self.arguments) + 1:
            return None
        return replace(self, arguments=longer[0].arguments, needs=longer[0].needs, line=line)

    @property
    def open_parameters(self) -> list[str]:
        """The optional parameters without an argument whose values can be any text or number."""
        return [
            each
            for each in self.function.optional
            if each not in self.arguments
            and not self.function.schema(each).get("enum")
            and self.function.schema(each).get("type") in ("string", "number", "integer")
        ]

    @property
    def literals(self) -> frozenset[str]:
        """The values that the model wrote itself, as text."""
        return literals_of(self.arguments.values())

    @property
    def required_literals(self) -> frozenset[str]:
        """Those of the required arguments, or of all if none is required."""
        wanted = self.function.required or self.arguments.keys()
        return literals_of([each for name, each in self.arguments.items() if name in wanted])

    def call_arguments(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the values of the arguments. Raises `Unresolved`."""
        made: dict[str, Any] = {}
        for name, expression in self.arguments.items():
            schema = self.function.schema(name)
            value = _fitting(_Reader(values, schema).value(expression), schema)
            if value is None and name not in self.function.required:
                continue
            made[name] = value
        return made


def literals_of(values: Iterable[ast.expr]) -> frozenset[str]:
    nodes = (node for each in values for node in ast.walk(each))
    return frozenset(str(node.value) for node in nodes if isinstance(node, ast.Constant))


class Made(Struct, frozen=True):
    """A call that was made since the request, and what it returned."""

    call: FunctionCall
    output: Any

    @property
    def answer(self) -> Any:
        """The output without the numbers that were arguments, if another number is left.

        Many functions return their arguments beside the result, such as a formula.
        """
        given = self.call.arguments
        if not isinstance(self.output, dict) or isinstance(given, str):
            return cast("Any", self.output)
        fields = cast("dict[str, Any]", self.output)
        numbers = [each for each in given.values() if _has_digits(each)]
        left = {
            key: each
            for key, each in fields.items()
            if not (_has_digits(each) and any(_is_equal(each, number) for number in numbers))
        }
        return left if any(map(is_number, left.values())) else fields


_ARGUMENT = re.compile(r"[(,] ?(\w+)=")


class Program:
    """The calls that a request needs."""

    def __init__(self, steps: Sequence[ProgramStep], end: float = 1.0) -> None:
        self.steps = _with_doubts(steps)
        self.end = end
        """How likely the end of the program was after the last step."""

    @classmethod
    def read(
        cls,
        text: str,
        functions: Sequence[OfferedFunction],
        call_end: Callable[[int], float] = lambda place: 0.0,
        program_end: Callable[[int], float] = lambda place: 0.0,
    ) -> "Program":
        """Reads the lines that are calls, and leaves out the others.

        `call_end` and `program_end` return how likely it is that a call, or the program, ends at
        a place of the text.
        """
        by_name = {function.name: function for function in functions}
        steps: list[ProgramStep] = []
        variables: set[str] = set()
        purpose, end, ended, last = "", 0, 0.0, 1.0
        for whole in text.splitlines(keepends=True):
            line, start, end = whole.strip(), end, end + len(whole)
            ended = max(ended, program_end(start))
            if line == DONE:
                last = ended
            if line.startswith("#"):
                purpose = line.removeprefix("#").strip()
                continue
            doubts = {each[1]: call_end(start + each.start()) for each in _ARGUMENT.finditer(whole)}
            for part in _apart(line, by_name, variables):
                step = _step(part, by_name, variables, purpose, doubts, ended)
                if step is not None:
                    variables.add(step.variable)
                    steps.append(step)
            purpose, ended = "", 0.0
        return cls(steps, last)

    @property
    def names(self) -> list[str]:
        """The called functions, each once."""
        return list(dict.fromkeys(step.function.tool.name for step in self.steps))

    def values(self, made: Sequence[Made]) -> tuple[dict[str, Any], list[ProgramStep]]:
        """Returns what the variables have after these calls, and the steps that were not made."""
        left, values, rest = list(made), dict[str, Any](), list[ProgramStep]()
        for step in self.steps:
            same = [each for each in left if each.call.name == step.function.tool.name]
            if not same:
                rest.append(step)
                continue
            exact = [each for each in same if _has(each.call, step, values)]
            done = (exact or same)[0]
            left.remove(done)
            values[step.variable] = done.answer
        return values, rest


def _with_doubts(steps: Sequence[ProgramStep]) -> list[ProgramStep]:
    """The steps, with the doubts about the same arguments in earlier calls of their functions.

    A model that has written `unit="celsius"` once is certain of it in the next line.
    """
    made: list[ProgramStep] = []
    known: dict[tuple[str, str, str], float] = {}
    for step in steps:
        keys = {
            name: (step.function.name, name, ast.unparse(value))
            for name, value in step.arguments.items()
        }
        doubts = {
            name: max(step.doubts.get(name, 0.0), known.get(key, 0.0)) for name, key in keys.items()
        }
        known |= {keys[name]: doubt for name, doubt in doubts.items()}
        made.append(replace(step, doubts=doubts))
    return made


def numbers_of(expression: ast.expr) -> list[float]:
    """Returns the numbers that an expression, but not a list in it, is calculated from."""
    if not isinstance(expression, ast.Constant | ast.UnaryOp | ast.BinOp):
        return []
    nodes = (node for node in ast.walk(expression) if isinstance(node, ast.Constant))
    return [node.value for node in nodes if isinstance(node.value, int | float)]


def _has_digits(value: Any) -> bool:
    return is_number(value) or (isinstance(value, str) and any(map(str.isdigit, value)))


def _is_equal(value: Any, other: Any) -> bool:
    """Whether both are the same; a function may round the numbers that it returns."""
    if is_number(value) and is_number(other):
        return math.isclose(value, other, rel_tol=1e-6)
    return value == other


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _has(call: FunctionCall, step: ProgramStep, values: Mapping[str, Any]) -> bool:
    try:
        return call.arguments == step.call_arguments(values)
    except Unresolved:
        return False


def _apart(line: str, functions: Mapping[str, OfferedFunction], variables: set[str]) -> list[str]:
    """The line, after a line for each call in its arguments: "price(of='tea') * 2" has one."""
    try:
        [statement] = ast.parse(line).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return [line]
    inner = _InnerCalls(functions, len(variables))
    if isinstance(statement, ast.Assign) and isinstance(outer := statement.value, ast.Call):
        for each in outer.keywords:
            each.value = inner.visit(each.value)
    return [*inner.lines, ast.unparse(statement)] if inner.lines else [line]


class _InnerCalls(ast.NodeTransformer):
    """Replaces calls, also those in the text of a formula, with variables."""

    def __init__(self, functions: Mapping[str, OfferedFunction], known: int) -> None:
        self._functions, self._known = functions, known
        self.lines: list[str] = []
        """The calls, each assigned to its variable."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if not isinstance(node.func, ast.Name) or node.func.id not in self._functions:
            return node
        variable = f"step_{self._known + len(self.lines) + 1}"
        self.lines.append(f"{variable} = {ast.unparse(node)}")
        return ast.Name(variable)

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if not isinstance(node.value, str):
            return node
        try:
            formula = ast.parse(node.value.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return node
        before = len(self.lines)
        replaced = self.visit(formula) if isinstance(formula, ast.BinOp) else node
        return replaced if len(self.lines) > before else node


def _step(
    line: str,
    functions: Mapping[str, OfferedFunction],
    variables: set[str],
    purpose: str,
    doubts: Mapping[str, float],
    end: float,
) -> ProgramStep | None:
    try:
        [statement] = ast.parse(line).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    match statement:
        case ast.Assign(targets=[ast.Name(id=variable)], value=ast.Call() as call):
            pass
        case ast.Expr(value=ast.Call() as call):
            variable = f"step_{len(variables) + 1}"
        case _:
            return None
    if not isinstance(call.func, ast.Name) or call.func.id not in functions:
        return None
    function = functions[call.func.id]
    named = dict(zip(function.parameters.values(), call.args, strict=False))
    for each in call.keywords:
        if each.arg in function.parameters:
            named[function.parameters[each.arg]] = each.value
    named = {name: _formula_in(value, variables) for name, value in named.items()}
    inside = {
        node.id
        for value in named.values()
        for node in ast.walk(value)
        if isinstance(node, ast.Name)
    }
    needs = frozenset(inside & variables)
    own = {function.parameters.get(name, name): doubt for name, doubt in doubts.items()}
    return ProgramStep(variable, function, named, needs, line, purpose, own, end)


def _formula_in(node: ast.expr, variables: set[str]) -> ast.expr:
    """The formula in a text such as "price * 2" or "20% of price"; otherwise the node.

    A comparison has no value: its step is written again when the result is known.
    """
    if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
        return node
    text = node.value
    try:
        formula = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        formula = None
    if isinstance(formula, ast.BinOp | ast.Compare):
        names = {each.id for each in ast.walk(formula) if isinstance(each, ast.Name)}
        return formula if names and names <= variables else node
    if not re.match(r"[\d.]+\s*%\s+of\s", text):
        return node
    # A percentage is not Python, but calculators read it.
    pieces = re.split(rf"\b({'|'.join(map(re.escape, variables)) or '(?!)'})\b", text)
    values: list[ast.expr] = [
        ast.FormattedValue(ast.Name(piece), -1) if place % 2 else ast.Constant(piece)
        for place, piece in enumerate(pieces)
    ]
    return ast.JoinedStr(values) if len(values) > 1 else node


_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: lambda left, right: left + right,
    ast.Sub: lambda left, right: left - right,
    ast.Mult: lambda left, right: left * right,
    ast.Div: lambda left, right: left / right,
    ast.FloorDiv: lambda left, right: left // right,
    ast.Mod: lambda left, right: left % right,
}
_CONSTANTS = {"true": True, "false": False, "null": None}
_RESULT_KEYS = ("result", "value", "answer", "total", "output")


class _Reader:
    """Reads an expression with the values of variables, for a parameter with this schema."""

    def __init__(self, values: Mapping[str, Any], schema: Schema) -> None:
        self._values = values
        self._wants_text = schema.get("type") == "string"

    def value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return self._variable(name)
            case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
                return [self.value(each) for each in items]
            case ast.Dict(keys=keys, values=values):
                return {
                    str(self.value(key)): self.value(value)
                    for key, value in zip(keys, values, strict=True)
                    if key is not None
                }
            case ast.JoinedStr(values=pieces):
                return self._joined(pieces)
            case ast.Call(func=ast.Name(id="str"), args=[inner], keywords=[]):
                return _text(_scalar(self.value(inner)))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self._number(self.value(operand))
            case ast.BinOp() if self._wants_text:
                return self._formula(node)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return self._calculated(type(op), self.value(left), self.value(right))
            case ast.Subscript(value=inner, slice=index):
                return _item(self._whole(inner), self.value(index))
            case ast.Attribute(value=inner, attr=name):
                return _item(self._whole(inner), name)
            case _:
                raise Unresolved(ast.unparse(node))

    def _whole(self, node: ast.expr) -> Any:
        """The value of an expression of which a part is wanted."""
        if isinstance(node, ast.Name) and node.id in self._values:
            return self._values[node.id]
        return self.value(node)

    def _variable(self, name: str) -> Any:
        if name in self._values:
            value = self._values[name]
            # A variable that is named after a field has this field's value.
            if isinstance(value, dict) and name in value:
                return cast("dict[str, Any]", value)[name]
            return cast("Any", value)
        if name in _CONSTANTS:
            return _CONSTANTS[name]
        raise Unresolved(name)

    def _joined(self, pieces: Sequence[ast.expr]) -> str:
        texts = [_text(self.value(each)) for each in pieces if isinstance(each, ast.Constant)]
        in_formula = _FORMULA.search("".join(texts)) is not None
        return "".join(self._piece(each, in_formula) for each in pieces)

    def _piece(self, node: ast.expr, in_formula: bool) -> str:
        if not isinstance(node, ast.FormattedValue):
            return _text(self.value(node))
        inner = node.value
        value = self._formula(inner) if isinstance(inner, ast.BinOp) else self.value(inner)
        text = _text(_scalar(value))
        # Without brackets, -5 ** 2 is -25.
        return f"({text})" if in_formula and text.startswith("-") else text

    def _formula(self, node: ast.expr) -> str:
        """An expression as text, with numbers in place of the variables."""
        if not isinstance(node, ast.BinOp):
            return _text(_scalar(self.value(node)))
        left, right = self._operand(node.left), self._operand(node.right)
        if isinstance(node.op, ast.Add) and _is_text(node.left) | _is_text(node.right):
            return left + right
        sign = _SIGNS.get(type(node.op))
        if sign is None:
            raise Unresolved(ast.unparse(node))
        return f"{left} {sign} {right}"

    def _operand(self, node: ast.expr) -> str:
        text = self._formula(node)
        return f"({text})" if isinstance(node, ast.BinOp) or text.startswith("-") else text

    def _calculated(self, kind: type[ast.operator], left: Any, right: Any) -> Any:
        if isinstance(left, str) and isinstance(right, str) and kind is ast.Add:
            return left + right
        try:
            return _OPERATORS[kind](self._number(left), self._number(right))
        except (ArithmeticError, ValueError) as error:
            raise Unresolved(str(error)) from error

    def _number(self, value: Any) -> float:
        found = number_in(value)
        if found is None:
            raise Unresolved(compact_json(value)[:80])
        return found


_FORMULA = re.compile(r"\*|/|\^|[-+%] *[\d(]")
_SIGNS: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
}


def _is_text(node: ast.expr) -> bool:
    match node:
        case ast.JoinedStr() | ast.Constant(value=str()) | ast.Call():
            return True
        case _:
            return False


def _item(value: Any, key: Any) -> Any:
    match value, key:
        case dict(), str() if key in value:
            return cast("dict[str, Any]", value)[key]
        case list(), int() if -len(cast("list[Any]", value)) <= key < len(cast("list[Any]", value)):
            return cast("list[Any]", value)[key]
        case _:
            raise Unresolved(str(key))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else compact_json(value)


def _scalar(value: Any) -> Any:
    """The one value that a result has. Raises `Unresolved` if it has several."""
    if not isinstance(value, dict | list):
        return value
    number = number_in(cast("Any", value))
    if number is None:
        raise Unresolved(compact_json(cast("Any", value))[:80])
    return number


def number_in(value: Any) -> float | None:
    """The number that a result has: its own, the only one, or the one that is called result."""
    match value:
        case bool() | None:
            return None
        case int() | float():
            return value
        case str():
            found = re.findall(r"-?\d+(?:\.\d+)?", value)
            return _as_number(found[0]) if len(found) == 1 else None
        case dict():
            fields = cast("dict[str, Any]", value)
            for key in _RESULT_KEYS:
                if isinstance(fields.get(key), int | float):
                    return number_in(fields[key])
            numbers = [each for each in fields.values() if isinstance(each, int | float)]
            return number_in(numbers[0]) if len(numbers) == 1 else None
        case _:
            return None


def _as_number(text: str) -> float:
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text)


def _fitting(value: Any, schema: Schema) -> Any:
    """The value in the type that the schema asks for, if there is no doubt about it."""
    kind = schema.get("type")
    match kind, value:
        case "integer" | "number", dict():
            return _scalar(value)
        case "integer" | "number", str():
            number = number_in(value)
            return value if number is None else number
        case "integer", float() if value.is_integer():
            return int(value)
        case "string", bool() | None:
            return value
        case "string", int() | float():
            return compact_json(value)
        case "string", dict() | list():
            return _text(_scalar(value))
        case "boolean", str() if value.lower() in ("true", "false"):
            return value.lower() == "true"
        case "array", str() | int() | float():
            return _fitting([value], schema)
        case "array", list():
            return [_fitting_item(each, schema.get("items")) for each in cast("list[Any]", value)]
        case _:
            return value


def _fitting_item(value: Any, schema: object) -> Any:
    """The item of a list. In a list of numbers, all are of the same type."""
    items = cast("Schema", schema) if isinstance(schema, dict) else {}
    kind = items.get("type")
    if kind == "number" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, list) and kind != "array":
        return cast("Any", value)
    return cast("Any", value) if isinstance(value, dict) else _fitting(value, items)


def _descriptions(name: str, schema: Schema) -> Iterator[str]:
    """A line for a parameter, and one for each field of it: the model sees no other schema."""
    if text := str(schema.get("description") or ""):
        yield f"{name}: {_line(text, _MAX_PARAMETER_CHARS)}"
    items = schema.get("items")
    inner = cast("Schema", items) if isinstance(items, dict) else schema
    fields = inner.get("properties")
    if not isinstance(fields, dict):
        return
    place = f"{name}[0]" if isinstance(items, dict) else name
    required = cast("list[str]", inner.get("required") or ())
    for field, each in list(cast("dict[str, Any]", fields).items())[:_MAX_FIELDS]:
        if not isinstance(each, dict):
            continue
        own = cast("Schema", each)
        kind = _type(own) if field in required else f"{_type(own)}, optional"
        text = _line(str(own.get("description") or ""), _MAX_PARAMETER_CHARS)
        yield f"{place}[{quoted(field)}] ({kind}){': ' * bool(text)}{text}"


def _identifiers(names: Sequence[str]) -> list[str]:
    made: list[str] = []
    for name in names:
        plain = re.sub(r"\W", "_", name, flags=re.ASCII) or "_"
        if plain[0].isdigit() or keyword.iskeyword(plain):
            plain = f"{plain}_" if keyword.iskeyword(plain) else f"_{plain}"
        while plain in made:
            plain += "_"
        made.append(plain)
    return made


def _type(schema: Schema) -> str:
    values = schema.get("enum")
    if isinstance(values, list) and len(cast("list[Any]", values)) <= _MAX_CHOICES:
        return f"Literal[{', '.join(map(_python, cast('list[Any]', values)))}]"
    kind: Any = schema.get("type")
    if isinstance(kind, list):
        kind = next((each for each in cast("list[Any]", kind) if each != "null"), "null")
    items = schema.get("items")
    if kind == "array" and isinstance(items, dict) and items:
        return f"list[{_type(cast('Schema', items))}]"
    return _TYPES.get(str(kind), "Any")


def _python(value: Any) -> str:
    """A value as Python, without markers."""
    return repr(value) if value is None or isinstance(value, int | float) else quoted(value)


def _line(text: str, limit: int) -> str:
    """The text as one line without markers."""
    return quoted(" ".join(text.split())[:limit])[1:-1].replace('\\"', '"')


def _literal(text: str) -> str:
    """A text in the grammar's notation."""
    return '"' + "".join(_escaped(text)) + '"'


def _escaped(text: str) -> Iterator[str]:
    for letter in text:
        if letter in '"\\':
            yield f"\\{letter}"
        elif letter.isprintable() and letter.isascii():
            yield letter
        elif ord(letter) > 0xFFFF:
            yield f"\\U{ord(letter):08X}"
        elif ord(letter) > 0x7F:
            yield f"\\u{ord(letter):04X}"
        else:
            yield f"\\x{ord(letter):02X}"
