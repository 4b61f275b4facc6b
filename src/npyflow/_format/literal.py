"""The subset of Python literals that ``.npy`` headers are written in.

Headers are parsed, never evaluated. Dicts, tuples, strings, integers, ``True``, ``False`` and ``None``, and lists of
fields, which are tuples of two or three. One pass; depth and length of tuples are bounded by what a header can need,
so a text of any other kind is refused where it begins to be one.

NumPy hands the text to `ast.literal_eval`, which knows more: comments, hexadecimal numbers, strings in pieces. A short
text that is refused here gets a second chance there, so that what NumPy reads is read.
"""

from __future__ import annotations

import ast
import re
import threading
import warnings
from typing import Any

from npyflow._core.text import brief

MAX_DEPTH = 32
# NumPy's arrays have at most 64 axes; a field is a tuple of at most three.
MAX_TUPLE = 64
# NumPy refuses longer texts, unless told otherwise; `ast.literal_eval` takes a hundred times their size in memory.
MAX_PYTHON_TEXT = 10_000

# As many as a short text can have, and far more than a header needs beside plain fields; more would take long.
MAX_TOKENS = MAX_PYTHON_TEXT + 1

# What other writers get wrong and what can mean one thing only.
LONG = "an integer of Python 2, such as 2L"
PRINTED = "a NumPy scalar as NumPy 2 prints it, such as np.int64(2)"

_TOKEN = re.compile(
    r"""[ \t\r\n\f]*+(?:
        (?P<punct>[{}()\[\],:])
      | (?P<int>[-+]?(?:0+|[1-9][0-9]{0,39}))(?![0-9A-Za-z_.])
      | (?P<long>[-+]?(?:0|[1-9][0-9]{0,39}))L(?![0-9A-Za-z_.])
      | (?:np|numpy)\.(?:
            u?int(?:8|16|32|64)?\((?P<printed>[-+]?(?:0|[1-9][0-9]{0,39}))\)
          | (?P<flag>True|False)_(?![A-Za-z0-9_.'"(])
        )
      | (?P<name>[A-Za-z_]{1,5}(?![A-Za-z0-9_.'"]))
      | [uU]?'(?P<single>[^'\\\n\r\0]*+(?:\\[^\n\r\0][^'\\\n\r\0]*+)*+)'
      | [uU]?"(?P<double>[^"\\\n\r\0]*+(?:\\[^\n\r\0][^"\\\n\r\0]*+)*+)"
      | (?P<end>\Z)
    )""",
    re.VERBOSE,
)
# A field as NumPy prints it, with room for spaces. A wide header is thousands of these, so they are read in runs.
_PLAIN_FIELD = (
    r"[ ]*+\([ ]*+'([^'\\\n\r\0]*+)'[ ]*+,[ ]*+'([^'\\\n\r\0]*+)'[ ]*+"
    r"(?:,[ ]*+\(((?:(?:0|[1-9][0-9]{0,39}),[ ]*+)++(?:0|[1-9][0-9]{0,39})?+)\)[ ]*+)?+\)"
)
_FIELDS = re.compile(rf"(?:{_PLAIN_FIELD}[ ]*+(?:,|(?=\])))++")
_FIELD = re.compile(_PLAIN_FIELD)
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)")
_ESCAPES = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "t": "\t", "r": "\r"}
_NAMES = {"True": True, "False": False, "None": None}
_SLIPS = {"long": LONG, "printed": PRINTED, "flag": PRINTED}
_OPENING = ("(", "[", "{")
# Filters of warnings belong to the process: two threads that set them at once would leave them changed.
_FILTERS = threading.Lock()


class LiteralError(ValueError):
    """The text is no literal; the message says where."""


def parse_literal(text: str) -> tuple[Any, frozenset[str]]:
    """Return the value that `text` writes, and the slips in how it is written.

    Returns
    -------
    value
        What the text says.
    slips : frozenset of str
        `LONG`, `PRINTED`: what is no literal of Python 3 and was read all the same.

    Raises
    ------
    LiteralError
        If the text is anything else, or nests deeper than `MAX_DEPTH`.
    """
    try:
        parser = _Parser(text)
        value = parser.value(0)
        if parser.kind != "end":
            raise parser.error("the end")
    except LiteralError:
        if len(text) > MAX_PYTHON_TEXT:
            raise
        try:
            return _as_python(text), frozenset()
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            pass
        # The message of the parser that knows what headers look like.
        raise
    return value, frozenset(parser.slips)


def _as_python(text: str) -> Any:
    with _FILTERS, warnings.catch_warnings():
        # An invalid escape is a matter for whoever wrote the file.
        warnings.simplefilter("ignore")
        return ast.literal_eval(text)


class _Parser:
    """One token of look-ahead over `text`."""

    __slots__ = ("_at", "_left", "_next", "_text", "kind", "slips", "token")

    def __init__(self, text: str) -> None:
        self._text = text
        self._next = 0
        self._left = MAX_TOKENS
        self.slips: set[str] = set()
        self.advance()
        if text.lstrip(" \t")[:1] in ("\n", "\r", "\f"):
            # Whether that is an indented line is for Python to say.
            self.kind = "other"

    def advance(self) -> None:
        self._at = self._next
        self._left -= 1
        if self._left < 0:
            raise LiteralError(f"more than {MAX_TOKENS:,} words before character {self._at}")
        match = _TOKEN.match(self._text, self._next)
        if match is None:
            self.kind, self.token = "other", self._text[self._next : self._next + 12]
            return
        self.kind = str(match.lastgroup)
        self.token = match[self.kind]
        self._next = match.end()

    def error(self, expected: str) -> LiteralError:
        found = repr(self._text[self._at : self._at + 20].lstrip()) if self.kind != "end" else "the end"
        return LiteralError(f"expected {expected} at character {self._at}, found {found}")

    def value(self, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise LiteralError(f"nests deeper than {MAX_DEPTH} levels at character {self._at}")
        kind, token = self.kind, self.token
        if kind == "punct" and token in _OPENING:
            return {"{": self._dict, "[": self._list, "(": self._tuple}[token](depth)
        if kind in ("int", "long", "printed"):
            self._slip(kind)
            self.advance()
            return int(token)
        if kind in ("name", "flag") and token in _NAMES:
            self._slip(kind)
            self.advance()
            return _NAMES[token]
        if kind in ("single", "double"):
            self.advance()
            return _unescape(token)
        raise self.error("a value")

    def _slip(self, kind: str) -> None:
        if kind in _SLIPS:
            self.slips.add(_SLIPS[kind])

    def _is(self, punct: str) -> bool:
        return self.kind == "punct" and self.token == punct

    def _tuple(self, depth: int) -> Any:
        items: list[Any] = []
        comma = False
        self.advance()
        while not self._is(")"):
            items.append(self.value(depth + 1))
            if len(items) > MAX_TUPLE:
                raise LiteralError(f"a tuple of more than {MAX_TUPLE} items at character {self._at}")
            comma = self._comma(")")
        self.advance()
        # (6) is a parenthesised number in Python, no tuple.
        return tuple(items) if comma or len(items) != 1 else items[0]

    def _list(self, depth: int) -> list[Any]:
        items: list[Any] = []
        self.advance()
        while not self._is("]"):
            if fields := self._plain_fields():
                items += fields
                continue
            item = self.value(depth + 1)
            if not (isinstance(item, tuple) and len(item) in (2, 3)):
                raise LiteralError(f"a list holds {brief(item)} before character {self._at}; expected a field")
            items.append(item)
            self._comma("]")
        self.advance()
        return items

    def _plain_fields(self) -> list[Any]:
        """Step over as many plain fields as follow each other here, and return them."""
        run = _FIELDS.match(self._text, self._at)
        if run is None:
            return []
        self._next = run.end()
        self.advance()
        return [
            (name, descr, tuple(int(size) for size in shape.split(",") if size.strip())) if shape else (name, descr)
            for name, descr, shape in _FIELD.findall(run[0])
        ]

    def _dict(self, depth: int) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        self.advance()
        while not self._is("}"):
            if self.kind not in ("single", "double"):
                raise self.error("a quoted key")
            key = self.value(depth + 1)
            if not self._is(":"):
                raise self.error("':'")
            self.advance()
            found[key] = self.value(depth + 1)
            self._comma("}")
        self.advance()
        return found

    def _comma(self, closing: str) -> bool:
        """Step over a comma; without one the container must close here."""
        if self._is(","):
            self.advance()
            return True
        if not self._is(closing):
            raise self.error(f"',' or '{closing}'")
        return False


def _unescape(text: str) -> str:
    return _ESCAPE.sub(_escaped, text) if "\\" in text else text


def _escaped(match: re.Match[str]) -> str:
    code = match[1]
    if code[0] in "xuU" and len(code) > 1:
        point = int(code[1:], 16)
        if point > 0x10FFFF:
            raise LiteralError(f"no such character {match[0]!r}")
        return chr(point)
    if code not in _ESCAPES:
        raise LiteralError(f"unknown escape {match[0]!r}")
    return _ESCAPES[code]
