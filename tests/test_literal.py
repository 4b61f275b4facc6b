"""The literal parser agrees with Python on what headers are written in, and refuses everything else."""

from __future__ import annotations

import ast
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npyflow._format.literal import LONG, MAX_DEPTH, MAX_PYTHON_TEXT, MAX_TUPLE, PRINTED, LiteralError, parse_literal

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
    got, slips = parse_literal(repr(value))
    assert not slips
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
    value, slips = parse_literal(text)
    assert value == expected
    assert type(value) is type(expected)
    assert not slips


@pytest.mark.parametrize(
    ("text", "value", "slips"),
    [
        ("(6L, 10L)", (6, 10), {LONG}),
        ("(6L,)", (6,), {LONG}),
        ("(-6L, 0L, 3)", (-6, 0, 3), {LONG}),
        ("np.int64(2)", 2, {PRINTED}),
        ("(numpy.uint8(2), np.int(-3))", (2, -3), {PRINTED}),
        ("(np.True_, numpy.False_)", (True, False), {PRINTED}),
        ("{'a': (np.int32(2), 3L)}", {"a": (2, 3)}, {LONG, PRINTED}),
        ("'2L np.int64(2)'", "2L np.int64(2)", set()),
    ],
)
def test_slips_are_read_and_told(text, value, slips):
    assert parse_literal(text) == (value, slips)


# What only Python's own parser knows: it is asked where this one refuses.
PYTHON = [
    "(1, # one\n 2)",
    "{'a': 1} # done",
    "0x10",
    "0b11",
    "1_000",
    "'a' 'b'",
    "('a' \"b\")",
    '"""a\nb"""',
    "r'\\q'",
    "b'<f4'",
    "'\\q'",
    "'\\101'",
    "'\\N{DIGIT ONE}'",
    "'a\\\nb'",
    "{1: 2}",
    "{1, 2}",
    "[1]",
    "['<f4']",
    "[[]]",
    "[(1, 2, 3, 4)]",
    "1.5",
    "1e3",
    "1j",
    "- 1",
    "...",
    "\n(1, 2)",
    "\f(1, 2)",
    "(" * (MAX_DEPTH + 2) + ")" * (MAX_DEPTH + 2),
    "(" + "1," * (MAX_TUPLE + 1) + ")",
]


@pytest.mark.filterwarnings("ignore:invalid escape sequence", "ignore:.*is an invalid escape sequence")
@pytest.mark.parametrize("text", PYTHON)
def test_the_rest_of_pythons_literals_in_a_short_text(text):
    assert parse_literal(text) == (ast.literal_eval(text), frozenset())
    assert parse_literal(text + " " * (MAX_PYTHON_TEXT - len(text)))[0] == ast.literal_eval(text)
    with pytest.raises(LiteralError):
        parse_literal(text + " " * (MAX_PYTHON_TEXT + 1 - len(text)))


def test_an_invalid_escape_is_read_without_a_warning():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert parse_literal("'\\q'")[0] == "\\q"
    assert not caught


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
        "(1 2)",
        "(,)",
        "[,]",
        "(1,,2)",
        "1 2",
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
        "'a",
        "'a\nb'",
        '"a',
        "'a' + 'b'",
        "1 + 1",
        "-",
        "--1",
        "lambda: 1",
        "06",
        "2LL",
        "2 L",
        "0x2L",
        "02L",
        "np.int64(2L)",
        "np.float64(2)",
        "np.int64",
        "np.True_()",
        "np.str_('a')",
        "xnp.int64(2)",
        "'a\0b'",
        "'a\rb'",
        "(1)\0",
        "\n (1)",
        "(1)\n2",
        "2L # two",
        "[x for x in y]",
        "{'a': 1}}",
        "(1,))",
        "(1,]",
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
    assert parse_literal("(" * fine + ")" * fine)[0] == ()
    for opening, closing in ("[]", "()"):
        with pytest.raises(LiteralError, match="deeper"):
            parse_literal((opening * (fine + 2) + closing * (fine + 2)).ljust(MAX_PYTHON_TEXT + 1))
    with pytest.raises(LiteralError, match="deeper"):
        parse_literal("{'a':" * 100_000)


def test_length_is_bounded():
    assert parse_literal("(" + "1," * MAX_TUPLE + ")")[0] == (1,) * MAX_TUPLE
    with pytest.raises(LiteralError, match=f"more than {MAX_TUPLE} items"):
        parse_literal(("(" + "1," * (MAX_TUPLE + 1) + ")").ljust(MAX_PYTHON_TEXT + 1))


def test_errors_say_what_and_where():
    with pytest.raises(LiteralError, match=r"expected ',' or '\)' at character 2, found '2\)'"):
        parse_literal("(1 2)")
    with pytest.raises(LiteralError, match="found the end"):
        parse_literal("{'a': ")


@settings(max_examples=200, deadline=None)
@given(st.text("{}()[],:'\"\\ \nLTrueNoFals0123456789uxbU<f4-+.\0é", max_size=40))
def test_any_text_is_read_as_python_does_or_refused(text):
    try:
        # NumPy's way; it takes an invalid escape with a warning.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        expected = None
        refused = True
    else:
        refused = False
    try:
        value, slips = parse_literal(text)
    except LiteralError:
        assert refused
        return
    # A blank line after the last newline is all that is read here besides slips.
    assert refused == bool(slips) or text.rstrip(" \t\f")[-1:] == "\n"
    assert refused or repr(value) == repr(expected)
