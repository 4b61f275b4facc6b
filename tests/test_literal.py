"""The literal parser agrees with Python on what headers are written in, and refuses everything else."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npyflow._format.literal import MAX_DEPTH, MAX_TUPLE, LiteralError, parse_literal

_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
_LEAF = st.one_of(st.integers(-(10**30), 10**30), st.booleans(), st.none(), _TEXT)
VALUES = st.recursive(
    _LEAF,
    lambda child: st.one_of(
        # A list holds fields: tuples of a name, a dtype and perhaps a shape.
        st.lists(st.one_of(st.tuples(child, child), st.tuples(child, child, child)), max_size=3),
        st.lists(child, max_size=4).map(tuple),
        st.dictionaries(_TEXT, child, max_size=3),
    ),
    max_leaves=12,
)


@settings(max_examples=120, deadline=None)
@given(VALUES)
def test_a_repr_reads_back(value):
    try:
        expected = ast.literal_eval(repr(value))
    except (ValueError, SyntaxError):  # a lone surrogate cannot be written
        return
    got = parse_literal(repr(value))
    assert got == expected
    assert repr(got) == repr(expected)


@pytest.mark.parametrize(
    "text",
    [
        "()",
        "(1,)",
        "(1)",
        "(1, 2)",
        "(1,2,)",
        "[]",
        "[(1, 2)]",
        "[(1, 2),]",
        "[(1, 2), (3, [], ())]",
        "{}",
        "{'a': 1}",
        "{'a': 1,}",
        '{"a": 1}',
        "{'a': {'b': (True, False, None)}}",
        "-5",
        "+5",
        "0",
        "u'text'",
        "'a\\'b'",
        '"a\'b"',
        "'\\x41'",
        "'\\u00e9'",
        "'\\U0001F600'",
        "'\\\\'",
        "'\\n\\t\\r'",
        "( ( (1,) ) )",
        "'été'",
        "''",
        "{'a':1,'a':2}",
        "\t(1 ,\n2)",
        " (1,) ",
        "[('x', '<f4', (2,)), ('', '|V4')]",
    ],
)
def test_reads_as_python_does(text):
    expected = ast.literal_eval(text.strip())
    assert parse_literal(text) == expected
    assert type(parse_literal(text)) is type(expected)


def test_python_2_longs_are_integers():
    assert parse_literal("(6L, 10L)") == (6, 10)
    assert parse_literal("(6L,)") == (6,)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "(",
        "((",
        "[1",
        "{'a'",
        "{'a':",
        "{'a': 1",
        "{'a' 1}",
        "{1: 2}",
        "{'a'}",
        "(1 2)",
        "(,)",
        "[,]",
        "[1]",
        "['<f4']",
        "[[]]",
        "[(1,)]",
        "[(1, 2, 3, 4)]",
        "(1,,2)",
        "1 2",
        "1.5",
        "1e3",
        "1j",
        "0x10",
        "1_000",
        "1.",
        "12a",
        "nan",
        "inf",
        "abc",
        "true",
        "Truex",
        "None1",
        "__import__('os')",
        "True()",
        "os.system",
        "(1, __import__('os').system('true'))",
        "np.int64(2)",
        "'a",
        "'a\nb'",
        '"a',
        "'a' + 'b'",
        "1 + 1",
        "-",
        "--1",
        "lambda: 1",
        "[x for x in y]",
        "{'a': 1}}",
        "(1,))",
        "(1,]",
        "'\\q'",
        "'\\x4'",
        "f'{1}'",
        "1;2",
        "${a}",
        "\\",
    ],
)
def test_refuses_everything_else(text):
    with pytest.raises(LiteralError):
        parse_literal(text)


@pytest.mark.parametrize("text", ["'\\U00110000'", "'\\UFFFFFFFF'", "{'descr': '\\UFFFFFFFF'}"])
def test_a_code_point_beyond_unicode_is_a_literal_error(text):
    with pytest.raises(LiteralError):
        parse_literal(text)


def test_depth_is_bounded():
    fine = MAX_DEPTH
    assert parse_literal("(" * fine + ")" * fine) == ()
    for opening, closing in ("[]", "()"):
        with pytest.raises(LiteralError, match="deeper"):
            parse_literal(opening * (fine + 2) + closing * (fine + 2))
    with pytest.raises(LiteralError, match="deeper"):
        parse_literal("{'a':" * 100_000)


def test_length_is_bounded():
    assert parse_literal("(" + "1," * MAX_TUPLE + ")") == (1,) * MAX_TUPLE
    with pytest.raises(LiteralError, match=f"more than {MAX_TUPLE} items"):
        parse_literal("(" + "1," * (MAX_TUPLE + 1) + ")")


def test_errors_say_what_and_where():
    with pytest.raises(LiteralError, match=r"expected ',' or '\)' at character 2, found '2\)'"):
        parse_literal("(1 2)")
    with pytest.raises(LiteralError, match="found the end"):
        parse_literal("{'a': ")


@settings(max_examples=200, deadline=None)
@given(st.text("{}()[],:'\"\\ \nLTrueNoFals0123456789uxbU<f4-+.\0é", max_size=40))
def test_any_text_is_read_as_python_does_or_refused(text):
    try:
        value = parse_literal(text)
    except LiteralError:
        return
    # What only this parser reads: Python 2 longs, NUL padding, leading zeros.
    try:
        expected = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError):
        return
    assert value == expected or isinstance(expected, bytes)
