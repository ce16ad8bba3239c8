"""Expressions of a dataset file, parsed into a small tree; they are never pasted into SQL.

`header.message-id`, `long(header.version)`, `value.type = 'entry' and amount is not null`, `customer.id` of a struct.
A bare name means `value.NAME`, but for words of the log, such as `offset`, which may be written `log.offset`, too. Any
name may be quoted: `header."x:trace"`. What a tree means for Spark is `onefold.values.expressions`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from lark import Lark, Transformer
from lark.exceptions import UnexpectedInput, VisitError

from onefold.dataset.types import number_type

OF_THE_LOG = ("key", "timestamp", "offset", "topic", "partition")
"""Words for what the log has of a record: bare, or behind `log.`."""
ROOTS = ("key", "value", "header", "timestamp", "offset", "topic", "partition")
OF_ENVELOPE = ("envelope", "debezium")
"""Words for what lies around the row in a value, always with a name behind them: `envelope.op`, `debezium.position`."""
CASTS = ("string", "int", "long", "double", "boolean", "date", "timestamp")
PERIODS = ("hour", "day", "month", "year")
"""The period that a date or timestamp lies in, as the instant or the day at which it begins."""
LOG_POSITIONS = ("pg_lsn", "hex")
"""Casts of text to a whole number: PostgreSQL's `16/B374D848`, and hexadecimal digits as SQL Server has them."""
FUNCTIONS = (*CASTS, *LOG_POSITIONS, "lower", "upper", "trim", "coalesce", *PERIODS)
DEEPEST = 40
"""How deep an expression may nest: what compiles it, here and in Spark, recurses."""
_SHOWN = 200
"""Letters of an expression that errors repeat."""

_GRAMMAR = r"""
?start: disjunction
?disjunction: conjunction ("or"i conjunction)+ -> any_of | conjunction
?conjunction: negation ("and"i negation)+ -> all_of | negation
?negation: "not"i negation -> negate | comparison
?comparison: operand OPERATOR operand -> compare
    | operand "is"i "null"i -> is_null
    | operand "is"i "not"i "null"i -> is_not_null
    | operand "in"i "(" literal ("," literal)* ")" -> member
    | operand
?operand: literal | call | path | "(" disjunction ")"
call: NAME "(" operand ("," operand)* ")"
path: (NAME | QUOTED) ("." (SEGMENT | QUOTED))*
?literal: STRING -> text | NUMBER -> number | "true"i -> true | "false"i -> false
OPERATOR: "=" | "!=" | "<>" | "<=" | ">=" | "<" | ">"
NAME: /(?!(and|or|not|is|in|null|true|false)\b)[A-Za-z_][A-Za-z0-9_]*/i
SEGMENT: /[A-Za-z_][A-Za-z0-9_-]*/
QUOTED: /"(?:[^"]|"")+"/
STRING: /'(?:[^']|'')*'/
NUMBER: /-?\d+(?:\.\d+)?/
%ignore /\s+/
"""


@dataclass(frozen=True, slots=True)
class Path:
    """A reference: `root` is one of `ROOTS`, `name` the header, field or key part ('' for the root itself).
    `schema.name` is the name of the schema that a value was written by; `envelope.op` a part of its envelope.

    `inner` leads on into a value field that is a struct, or into a part of the key that is an object.
    """

    root: str
    name: str = ""
    inner: tuple[str, ...] = ()

    @property
    def column(self) -> str:
        """The column name that a target table gives it: letters that no column has are `_`."""
        return re.sub(r"[^A-Za-z0-9_-]", "_", "_".join((self.name or self.root, *self.inner)))


@dataclass(frozen=True, slots=True)
class Literal:
    """A string, a boolean, or a number as its text; None: a condition of which nothing is known."""

    value: str | bool | None
    number: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """One of `FUNCTIONS` on one argument."""

    function: str
    argument: Expression


@dataclass(frozen=True, slots=True)
class Fallback:
    """`coalesce(one, other, …)`: the first that is not null."""

    terms: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Compare:
    """`left operator right`, with SQL's three-valued logic."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Junction:
    """`and` or `or` over two or more terms."""

    operator: str
    terms: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Negation:
    """`not term`."""

    term: Expression


@dataclass(frozen=True, slots=True)
class NullTest:
    """`term is null`, or `is not null`."""

    term: Expression
    negated: bool


@dataclass(frozen=True, slots=True)
class Member:
    """`term in (literals)`."""

    term: Expression
    items: tuple[Literal, ...]


Expression = Path | Literal | Call | Fallback | Compare | Junction | Negation | NullTest | Member


class _Build(Transformer[Any, Expression]):
    def path(self, words: list[Any]) -> Path:
        root, *rest = (_name(word) for word in words)
        if words[0].type == "QUOTED":
            return Path("value", root, tuple(rest))
        if root == "log" and rest and rest[0] in (*OF_THE_LOG, "header", "schema"):
            root, *rest = rest
        if root == "schema" and rest == ["name"]:
            return Path(root, "name")
        if root in ("value", *OF_ENVELOPE) and rest:
            return Path(root, rest[0], tuple(rest[1:]))
        if root in ROOTS and (rest or root not in ("value", "header")):
            if root == "header" and len(rest) > 1:
                quoted = ".".join(rest)
                raise ValueError(f'a header has no parts; a name with dots is quoted: header."{quoted}"')
            if rest and root not in ("key", "header"):
                raise ValueError(f"{root!r} has no parts")
            return Path(root, rest[0] if rest else "", tuple(rest[1:]))
        return Path("value", root, tuple(rest))

    def call(self, words: list[Any]) -> Call | Fallback:
        name, *arguments = str(words[0]), *words[1:]
        if name not in FUNCTIONS:
            raise ValueError(f"no function {name!r} (there are {', '.join(FUNCTIONS)})")
        if name == "coalesce":
            return Fallback(tuple(arguments))
        if len(arguments) > 1:
            raise ValueError(f"{name} takes one argument")
        return Call(name, arguments[0])

    def text(self, words: list[Any]) -> Literal:
        return Literal(str(words[0])[1:-1].replace("''", "'"))

    def number(self, words: list[Any]) -> Literal:
        number_type(str(words[0]))
        return Literal(str(words[0]), number=True)

    def true(self, _words: list[Any]) -> Literal:
        return Literal(True)

    def false(self, _words: list[Any]) -> Literal:
        return Literal(False)

    def compare(self, words: list[Any]) -> Compare:
        left, operator, right = words
        return Compare("!=" if operator == "<>" else str(operator), left, right)

    def is_null(self, words: list[Any]) -> NullTest:
        return NullTest(words[0], negated=False)

    def is_not_null(self, words: list[Any]) -> NullTest:
        return NullTest(words[0], negated=True)

    def member(self, words: list[Any]) -> Member:
        return Member(words[0], tuple(words[1:]))

    def negate(self, words: list[Any]) -> Negation:
        return Negation(words[0])

    def all_of(self, words: list[Any]) -> Junction:
        return Junction("and", tuple(words))

    def any_of(self, words: list[Any]) -> Junction:
        return Junction("or", tuple(words))


def _name(word: Any) -> str:
    return str(word)[1:-1].replace('""', '"') if word.type == "QUOTED" else str(word)


@cache
def _parser() -> Lark:
    return Lark(_GRAMMAR, parser="lalr", propagate_positions=True)


@cache
def parse(text: str) -> Expression:
    """Parse one expression.

    Raises:
        ValueError: it cannot be read; the message points at the place.
    """
    try:
        tree = _Build().transform(_parser().parse(text))
        depth = _depth(tree)
    except UnexpectedInput as error:
        column = getattr(error, "column", 0)
        raise ValueError(f"{shorten(text)} cannot be read at character {column}{_quoting(text, column)}") from error
    except VisitError as error:
        raise ValueError(f"{shorten(text)}: {error.orig_exc}") from error
    except RecursionError:
        depth = DEEPEST + 1
    if depth > DEEPEST:
        raise ValueError(f"{text[:40]!r}… nests deeper than {DEEPEST} levels")
    return tree


def shorten(text: str) -> str:
    """An expression as an error repeats it: quoted, and cut where it is long."""
    return repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}…"


_ODD_NAME = re.compile(r"((?:key|value|header)\.)?([^\s()'\"=<>!,]+)")


def _quoting(text: str, column: int) -> str:
    """What to write in place of a name with other letters."""
    for found in _ODD_NAME.finditer(text):
        if found.start() < column <= found.end() and not re.fullmatch(r"[\w.-]+", found[2], re.ASCII):
            return f'; a name with other letters than A to Z, digits, _ and - is quoted: {found[1] or ""}"{found[2]}"'
    return ""


@dataclass(frozen=True, slots=True)
class Spelled:
    """A reference as an expression has it, from `start` to `end`: its names, the first `quoted` or not."""

    start: int
    end: int
    names: tuple[str, ...]
    quoted: bool


def spelled(text: str) -> list[Spelled]:
    """The references of an expression in their order; of an expression that cannot be read, none."""
    try:
        tree = _parser().parse(text)
    except (UnexpectedInput, RecursionError):
        return []
    found = []
    for subtree in tree.iter_subtrees():
        if subtree.data == "path":
            words: list[Any] = subtree.children
            names = tuple(map(_name, words))
            found.append(Spelled(subtree.meta.start_pos, subtree.meta.end_pos, names, words[0].type == "QUOTED"))
    return sorted(found, key=lambda reference: reference.start)


def _terms(expression: Expression) -> list[Expression]:
    match expression:
        case Fallback(terms):
            return [*terms]
        case Call(_, argument):
            return [argument]
        case Compare(_, left, right):
            return [left, right]
        case Junction(_, terms):
            return [*terms]
        case Negation(term) | NullTest(term, _) | Member(term, _):
            return [term]
        case _:
            return []


def _depth(expression: Expression) -> int:
    return 1 + max(map(_depth, _terms(expression)), default=0)


def with_paths(expression: Expression, change: Callable[[Path], Path]) -> Expression:
    """A tree with each of its references changed."""

    def changed(term: Expression) -> Expression:
        return with_paths(term, change)

    match expression:
        case Path():
            return change(expression)
        case Literal():
            return expression
        case Call(function, argument):
            return Call(function, changed(argument))
        case Fallback(terms):
            return Fallback(tuple(map(changed, terms)))
        case Compare(operator, left, right):
            return Compare(operator, changed(left), changed(right))
        case Junction(operator, terms):
            return Junction(operator, tuple(map(changed, terms)))
        case Negation(term):
            return Negation(changed(term))
        case NullTest(term, negated):
            return NullTest(changed(term), negated)
        case Member(term, items):
            return Member(changed(term), items)


def used(expression: Expression) -> Iterator[Path]:
    """Every reference whose value is used, and not only asked whether it is null."""
    match expression:
        case NullTest(Path(), _):
            return
        case Path():
            yield expression
        case _:
            for term in _terms(expression):
                yield from used(term)


def parts(expression: Expression) -> Iterator[Expression]:
    """A tree and all that is in it."""
    yield expression
    for term in _terms(expression):
        yield from parts(term)


def calls(expression: Expression) -> Iterator[Call]:
    """Every function call in a tree."""
    return (part for part in parts(expression) if isinstance(part, Call))


def paths(expression: Expression) -> Iterator[Path]:
    """Every reference in a tree."""
    return (part for part in parts(expression) if isinstance(part, Path))


def paths_without(expression: Expression, known: Collection[Expression]) -> Iterator[Path]:
    """Every reference in a tree that is in none of its parts that are `known`."""
    if expression in known:
        return
    if isinstance(expression, Path):
        yield expression
    for term in _terms(expression):
        yield from paths_without(term, known)
