"""Small changes of source text: what a slip of the pen does to a formula, one place at a time."""

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from textwrap import dedent
from textwrap import indent as indented
from typing import Any, TypeGuard

FACTORS = (1.001, 0.99, 2.0, -1.0)
OPPOSITE: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
REVERSED: dict[type[ast.AST], type[ast.AST]] = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}
NOT_COMMUTATIVE = (ast.Sub, ast.Div, ast.MatMult, ast.Pow, ast.FloorDiv, ast.Mod)
# what is said, not computed: messages, annotations, what is imported
SILENT = (ast.Raise, ast.JoinedStr, ast.Import, ast.ImportFrom, ast.arguments, ast.AnnAssign)
DEMOTED, SCALED = "_demoted", "_scaled"
REACHED, PASSED, CONVERTED = "_reached", "_passed", "_converted"

Change = Callable[[], None]


@dataclass(frozen=True)
class Mutation:
    """A change of one place: what kind it is, the line, the statement before and after, and the whole new source."""

    kind: str
    line: int
    before: str
    after: str
    source: str


@cache
def mutations(source: str) -> Sequence[Mutation]:
    """Every change of a source file, in the order of the file; changes that come to the same text are given once.

    Constants are scaled, negated or moved by one, operators and comparisons turned, terms, keywords and negations
    dropped, arguments and operands swapped, branches forced, defaults changed; results of assignments are scaled, or
    rounded to half precision.
    """
    lines = source.splitlines(keepends=True)
    return [made for function in _outermost(ast.parse(source)) for made in _mutated(function, lines)]


def _mutated(function: ast.FunctionDef, lines: list[str]) -> Iterator[Mutation]:
    """The changes of a function; it is read again for each, so that they do not add up."""
    start, end = function.lineno - 1, function.end_lineno
    first = min((decorator.lineno - 1 for decorator in function.decorator_list), default=start)
    text, indent = dedent("".join(lines[first:end])), " " * function.col_offset
    seen = {ast.unparse(ast.parse(text))}
    for n in range(sum(1 for _ in _sites(ast.parse(text)))):
        tree = ast.increment_lineno(ast.parse(text), first)
        kind, statement, change = next(islice(_sites(tree), n, None))
        before = _head(statement)
        change()
        made = ast.unparse(ast.fix_missing_locations(tree))
        if made not in seen:
            seen.add(made)
            whole = "".join([*lines[:first], f"{indented(made, indent)}\n", *lines[end:]])
            yield Mutation(kind, statement.lineno, before, _head(statement), whole)


def _outermost(tree: ast.Module) -> list[ast.FunctionDef]:
    """Functions and methods, without the functions in them, in the order of the file."""
    owners: list[ast.Module | ast.ClassDef] = [tree]
    owners += [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    found = [node for owner in owners for node in owner.body if isinstance(node, ast.FunctionDef)]
    return sorted(found, key=lambda function: function.lineno)


def probed(source: str) -> str:
    """A source file that tells what happens in it and does the same.

    Each statement calls _reached(line) before it is run; results pass through _passed(value, line), and what becomes an
    array through _converted(value, line).
    """
    tree = ast.parse(source)
    for function in _functions(tree):
        function.body = [*_probed(function.body)]
        function.body.insert(0, ast.Expr(_call(REACHED, ast.Constant(function.lineno))))
    return ast.unparse(ast.fix_missing_locations(tree))


def _probed(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        line = ast.Constant(statement.lineno)
        yield ast.Expr(_call(REACHED, line))
        if isinstance(statement, ast.Assign | ast.Return) and statement.value is not None:
            for array in [node for node in ast.walk(statement.value) if is_asarray(node)]:
                array.args[0] = _call(CONVERTED, array.args[0], line)
            statement.value = _call(PASSED, statement.value, line)
        for inner in _bodies(statement):
            inner[:] = [*_probed(inner)]
        yield statement


def is_asarray(node: ast.AST) -> TypeGuard[ast.Call]:
    """Whether an expression is np.asarray of one argument."""
    return (
        isinstance(node, ast.Call)
        and ast.unparse(node.func) == "np.asarray"
        and len(node.args) == 1
        and not node.keywords
    )


def _functions(tree: ast.Module) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def _bodies(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The statements in a statement; a function in a function stands by itself."""
    if isinstance(statement, ast.Match):
        yield from (case.body for case in statement.cases)
    elif not isinstance(statement, ast.FunctionDef):
        yield from (getattr(statement, name) for name in ("body", "orelse") if hasattr(statement, name))


def _call(function: str, *args: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(function), [*args], [])


def _head(statement: ast.stmt) -> str:
    """A statement without the statements in it."""
    text = ast.unparse(statement)
    return text.splitlines()[0] if hasattr(statement, "body") else text


def _sites(tree: ast.Module) -> Iterator[tuple[str, ast.stmt, Change]]:
    for function in _functions(tree):
        for defaults in (function.args.defaults, function.args.kw_defaults):
            for at, value in enumerate(defaults):
                for _, made in _changes(value) if value is not None else ():
                    yield "default", function, partial(_put_in, defaults, at, made)
        for statement in function.body:
            yield from _statement(statement)


def _statement(statement: ast.stmt) -> Iterator[tuple[str, ast.stmt, Change]]:
    if isinstance(statement, (ast.FunctionDef, *SILENT)):
        return
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return
    for kind, change in _below(statement):
        yield kind, statement, change
    if isinstance(statement, ast.Assign | ast.Return) and isinstance(statement.value, ast.expr):
        for kind, made in _results(statement.value):
            yield kind, statement, partial(setattr, statement, "value", made)
    for body in _bodies(statement):
        for inner in body:
            yield from _statement(inner)


def _below(node: ast.AST) -> Iterator[tuple[str, Change]]:
    for name, value in ast.iter_fields(node):
        for at, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.expr | ast.keyword | ast.comprehension):
                continue
            if isinstance(child, SILENT):
                continue
            for kind, made in _changes(child):
                yield kind, partial(_put, node, name, at, made)
            yield from _below(child)
            yield from _within(child)


def _put(node: ast.AST, name: str, at: int | None, made: ast.AST) -> None:
    if at is None:
        setattr(node, name, made)
    else:
        _put_in(getattr(node, name), at, made)


def _put_in(items: list[Any], at: int, made: ast.AST) -> None:
    items[at] = made


def _within(node: ast.AST) -> Iterator[tuple[str, Change]]:
    """Changes of a node that stays: its operator, operands, keywords, arguments."""
    if isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in OPPOSITE:
        yield "operator", partial(setattr, node, "op", OPPOSITE[type(node.op)]())
    if isinstance(node, ast.BinOp) and isinstance(node.op, NOT_COMMUTATIVE):
        yield "operands swapped", partial(_swap, node)
    if isinstance(node, ast.Compare):
        for at, op in enumerate(node.ops):
            for table in (OPPOSITE, REVERSED):
                if type(op) in table:
                    yield "comparison", partial(_put, node, "ops", at, table[type(op)]())
    if isinstance(node, ast.Call):
        for at in range(len(node.keywords)):
            yield "keyword dropped", partial(_drop, node.keywords, at)
        for at in range(len(node.args) - 1):
            yield "arguments swapped", partial(_exchange, node.args, at)


def _drop(keywords: list[ast.keyword], at: int) -> None:
    del keywords[at]


def _swap(node: ast.BinOp) -> None:
    node.left, node.right = node.right, node.left


def _exchange(items: list[ast.expr], at: int) -> None:
    items[at], items[at + 1] = items[at + 1], items[at]


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """What may stand in the place of an expression."""
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield "constant", ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        yield "off by one", ast.Constant(node.value + 1)
        yield "off by one", ast.Constant(node.value - 1)
    elif isinstance(node, ast.Constant) and isinstance(node.value, float):
        for factor in FACTORS:
            yield "constant", ast.Constant(node.value * factor)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.Div | ast.BitAnd):
        yield "term dropped", node.left
        yield "term dropped", node.right
    elif isinstance(node, ast.UnaryOp):
        yield "sign dropped", node.operand
    elif isinstance(node, ast.IfExp):
        yield "branch", node.body
        yield "branch", node.orelse
    elif isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
        yield "call dropped", node.args[0]


def _results(value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    for factor in FACTORS[:2]:
        yield "result scaled", _call(SCALED, value, ast.Constant(factor))
    yield "result demoted", _call(DEMOTED, value)
