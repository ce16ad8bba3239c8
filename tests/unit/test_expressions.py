"""Expressions are parsed, never pasted; what cannot be read is a ValueError that points at the place."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from onefold.dataset.expressions import (
    CASTS,
    DEEPEST,
    Call,
    Compare,
    Expression,
    Fallback,
    Junction,
    Literal,
    Member,
    Negation,
    NullTest,
    Path,
    parse,
    paths,
    used,
)

WORDS = [
    "a", "value.a", "header.message-id", "key", "key.k", "timestamp", "offset", "long(", "(", ")", "and", "or", "not",
    "is", "null", "in", "=", "!=", "<>", "<=", "'it''s'", "'", "1", "-2.5", "true", "false", ",", ".", "\n", "é",
]  # fmt: skip


@given(st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join) | st.text(max_size=40))
@example("(" * 3000 + "a" + ")" * 3000)
@example("not " * 3000 + "a")
@example("long(" * 3000 + "a" + ")" * 3000)
@example("a and " * 3000 + "a")
def test_any_text_is_an_expression_or_a_value_error(text: str) -> None:
    try:
        tree = parse(text)
    except ValueError:
        return
    assert all(isinstance(path, Path) for path in paths(tree))


def text_of(tree: Expression) -> str:
    """The tree as text, fully bracketed."""
    match tree:
        case Path(root, name):
            return f"{root}.{name}" if name else root
        case Literal(value, number):
            quoted = "'" + str(value).replace("'", "''") + "'"
            return str(value).lower() if isinstance(value, bool) else (str(value) if number else quoted)
        case Call(function, argument):
            return f"{function}(({text_of(argument)}))"
        case Compare(operator, left, right):
            return f"({text_of(left)}) {operator} ({text_of(right)})"
        case Junction(operator, terms):
            return f" {operator} ".join(f"({text_of(term)})" for term in terms)
        case Negation(term):
            return f"not ({text_of(term)})"
        case NullTest(term, negated):
            return f"({text_of(term)}) is {'not ' if negated else ''}null"
        case Member(term, items):
            return f"({text_of(term)}) in ({', '.join(text_of(item) for item in items)})"


LITERALS = st.one_of(
    st.text(max_size=6).map(Literal),
    st.booleans().map(Literal),
    st.integers(-99, 99).map(lambda number: Literal(str(number), number=True)),
)
LEAVES = LITERALS | st.sampled_from(
    [Path("value", "a"), Path("header", "message-id"), Path("key"), Path("key", "k"), Path("timestamp"), Path("offset")]
)


def grown(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    return st.one_of(
        st.builds(Call, st.sampled_from([*CASTS, "lower"]), inner),
        st.builds(Compare, st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), inner, inner),
        st.builds(Junction, st.sampled_from(["and", "or"]), st.lists(inner, min_size=2, max_size=3).map(tuple)),
        st.builds(Negation, inner),
        st.builds(NullTest, inner, st.booleans()),
        st.builds(Member, inner, st.lists(LITERALS, min_size=1, max_size=3).map(tuple)),
    )


@given(st.recursive(LEAVES, grown, max_leaves=8))
def test_every_tree_is_read_back_from_its_text(tree: Expression) -> None:
    assert parse(text_of(tree)) == tree


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("a or b and c", "a or (b and c)"),
        ("not a and b", "(not a) and b"),
        ("not a = 1", "not (a = 1)"),
        ("a = 1 and b = 2 or c = 3", "((a = 1) and (b = 2)) or (c = 3)"),
        ("not a is null", "not (a is null)"),
        ("a <> 1", "a != 1"),
        ("A AND b", "(A) and (b)"),
        ("a IN ('x') Or b Is Not Null", "(a in ('x')) or (b is not null)"),
    ],
)
def test_not_binds_closer_than_and_and_closer_than_or(text: str, same: str) -> None:
    assert parse(text) == parse(same)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("amount", Path("value", "amount")),
        ("value.amount", Path("value", "amount")),
        ("header.message-id", Path("header", "message-id")),
        ("header.is", Path("header", "is")),
        ("value.timestamp", Path("value", "timestamp")),
        ("header", Path("value", "header")),
        ("nullable", Path("value", "nullable")),
        ("long(header.version)", Call("long", Path("header", "version"))),
        ("'it''s'", Literal("it's")),
        ("''", Literal("")),
        ("'a -- ; drop'", Literal("a -- ; drop")),
        ("-2.50", Literal("-2.50", number=True)),
        ("TRUE", Literal(True)),
        ("log.offset", Path("offset")),
        ("log.key.id", Path("key", "id")),
        ("key.a.b", Path("key", "a", ("b",))),
        ('value."event.id"', Path("value", "event.id")),
        ('"event.id"', Path("value", "event.id")),
        ('"offset"', Path("value", "offset")),
        ('header."x:trace"', Path("header", "x:trace")),
        ('key."a ""b"""', Path("key", 'a "b"')),
        (
            "coalesce(after.id, before.id)",
            Fallback((Path("value", "after", ("id",)), Path("value", "before", ("id",)))),
        ),
    ],
)
def test_what_a_text_means(text: str, tree: Expression) -> None:
    assert parse(text) == tree


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "cannot be read"),
        ("a = ", "cannot be read at character"),
        ("a = = b", "cannot be read at character 5"),
        ("'open", "cannot be read at character 1"),
        ("a; drop table x", "cannot be read at character 2"),
        ("exec(a)", "no function 'exec'"),
        ("offset.a", "has no parts"),
        ("header.a.b", 'quoted: header."a.b"'),
        ("header.x:trace", 'is quoted: header."x:trace"'),
        ("value.@timestamp = 'a'", 'is quoted: value."@timestamp"'),
        ("long(a, b)", "long takes one argument"),
        ("not " * (DEEPEST + 1) + "a", f"nests deeper than {DEEPEST} levels"),
    ],
)
def test_what_cannot_be_read_says_where_and_why(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse(text)


def test_every_reference_of_a_tree_is_found() -> None:
    tree = parse("not (lower(value.a) in ('x') or b is null) and header.h >= key.k and offset = 3")
    assert set(paths(tree)) == {
        Path("value", "a"), Path("value", "b"), Path("header", "h"), Path("key", "k"), Path("offset"),
    }  # fmt: skip


def test_a_path_leads_on_into_a_struct() -> None:
    assert parse("customer.address.zip") == Path("value", "customer", ("address", "zip"))
    assert parse("value.customer.id") == Path("value", "customer", ("id",))
    assert Path("value", "customer", ("address", "zip")).column == "customer_address_zip"


def test_a_value_is_used_unless_only_its_absence_is_asked_for() -> None:
    tree = parse("customer is null and not (lines is not null) or lower(note) = 'x'")
    assert list(used(tree)) == [Path("value", "note")]
    assert list(paths(tree)) == [Path("value", "customer"), Path("value", "lines"), Path("value", "note")]
