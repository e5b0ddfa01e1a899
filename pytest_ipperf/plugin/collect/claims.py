"""Check statically how a test's source uses `measured`.

Only certain mistakes are reported; whatever the source does not show, such as a computed margin or a claim in another
function, is checked when the test runs.
"""

from __future__ import annotations

import ast
import inspect
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache
from typing import Any, TypeGuard

from pytest_ipperf.core.closest_match import did_you_mean
from pytest_ipperf.core.design.limit import EXAMPLES, FIGURES, THROUGHPUT, Limit
from pytest_ipperf.core.design.margin import Margin
from pytest_ipperf.core.design.metric import Metric
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.metrics import METRICS

ATTRIBUTES = (
    *("cell", "metric", "slowdown", "increase", "tail", "effect", "failures", "runs"),
    *FIGURES,
    *("arm", "reference"),
)
"""Attributes of `Measured`, repeated here because its module imports what only a measurement needs."""
_QUESTIONS = ("slowdown", "increase", "tail", *FIGURES)
_OF_ONE_ARM = frozenset({*FIGURES, "arm", "cell", "metric"})
"""Attributes that need no reference."""
_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)


def check_claims(function: Callable[..., Any], metric: str, figures: Collection[str] = FIGURES) -> None:
    """Raise UsageError, with the line number, for an invalid use of `measured` in a test; `figures` may have limits."""
    tree = _source(function)
    if tree is None or any(_binds_measured(node) for statement in tree.body for node in ast.walk(statement)):
        return
    quantity = METRICS[metric].metric
    expected = {node for each in ast.walk(tree) for statement in _may_raise(each) for node in ast.walk(statement)}
    for node in ast.walk(tree):
        for mistake in () if node in expected else (*_missing_figures(node, figures), *_mistakes(node, quantity)):
            raise UsageError(f"line {getattr(node, 'lineno', tree.lineno)}: {mistake}")


def compares_nothing(function: Callable[..., Any]) -> bool:
    """Return whether a test certainly compares nothing with the reference: it only uses figures of its own arm."""
    tree = _source(function)
    if tree is None or any(_binds_measured(node) for statement in tree.body for node in ast.walk(statement)):
        return False
    nodes = [node for statement in tree.body for node in ast.walk(statement)]
    alone = {node.value for node in nodes if isinstance(node, ast.Attribute) and node.attr in _OF_ONE_ARM}
    return all(node in alone for node in nodes if isinstance(node, ast.Name) and node.id == "measured")


def _binds_measured(node: ast.AST) -> bool:
    """Return whether a node binds the name `measured` to something else, such as a parameter of a nested function."""
    if isinstance(node, ast.Name):
        return node.id == "measured" and not isinstance(node.ctx, ast.Load)
    if isinstance(node, ast.keyword):  # names a parameter of the function that is called
        return False
    return "measured" in (getattr(node, name, None) for name in ("arg", "name", "asname", "rest"))


def _may_raise(node: ast.AST) -> Sequence[ast.stmt]:
    """Return the statements of a node that expect an error, such as the body of `with pytest.raises(...)`."""
    if isinstance(node, ast.With | ast.AsyncWith):
        called = [each.context_expr.func for each in node.items if isinstance(each.context_expr, ast.Call)]
        names = {getattr(each, "attr", getattr(each, "id", "")) for each in called}
        return node.body if names & {"raises", "suppress"} else []
    return node.body if isinstance(node, ast.Try | ast.TryStar) and node.handlers else []


def _source(function: Callable[..., Any]) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """Return the syntax tree of the test; None if its source is not available, as for a generated function."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return None
    try:
        state = os.stat(code.co_filename)  # noqa: PTH116 - the file name may be anything
    except (OSError, ValueError):
        return None
    known = _functions(code.co_filename, state.st_mtime_ns, state.st_size)
    return known.get((code.co_name, code.co_firstlineno))


@lru_cache(maxsize=4)  # pytest collects file by file; time and size are in the key, as a file may change meanwhile
def _functions(path: str, *_: int) -> dict[tuple[str, int], ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return the functions of a file by name and first line, decorators included."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - as above
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return {}
    return {
        (node.name, min(each.lineno for each in (node, *node.decorator_list))): node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def _mistakes(node: ast.AST, metric: Metric) -> Iterator[str]:
    if isinstance(node, ast.Attribute) and _is_measured(node.value) and not _known(node.attr):
        remedy = did_you_mean(node.attr, ATTRIBUTES) or f"; it has {', '.join(ATTRIBUTES)}"
        yield f"measured has no {node.attr!r}{remedy}"
    if isinstance(node, ast.Compare):
        yield from _wrong_comparison(node, metric)
    for truth in _truths(node):
        if _is_question(truth):
            yield f"`{ast.unparse(truth)}` alone compares nothing; {_right(truth, metric)}"
    for asserted in _parts(node.test) if isinstance(node, ast.Assert) else ():
        yield from _wrong_assertion(asserted, metric)


def _missing_figures(node: ast.AST, figures: Collection[str]) -> Iterator[str]:
    if _is_figure(node) and _is_measured(node.value) and node.attr not in figures:
        there = f"it has {', '.join(figures)}" if figures else "it has no figure with limits"
        yield f"this protocol has no {node.attr}; {there}"


def _known(attribute: str) -> bool:
    return attribute in ATTRIBUTES or attribute.startswith("__")


def _parts(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the operands of a conjunction, all of which must be true; any other expression itself."""
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        for value in node.values:
            yield from _parts(value)
    else:
        yield node


def _wrong_assertion(node: ast.expr, metric: Metric) -> Iterator[str]:
    """Yield the reason if an assertion inverts or ignores an answer; outside assertions both may be intended."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) and (asked := _question_in(node.operand)):
        yield (
            f"`{ast.unparse(node)}` would pass if the {'limit' if _is_figure(asked) else 'margin'} is exceeded and "
            "fail if it is kept; "
            f"{_right(asked, metric)}"
        )
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or) and any(map(_question_in, node.values)):
        always = [each for each in node.values if isinstance(each, ast.Constant) and each.value]
        if always:
            yield f"`{ast.unparse(node)}` is true whatever is measured; leave out `or {ast.unparse(always[0])}`"


def _wrong_comparison(node: ast.Compare, metric: Metric) -> Iterator[str]:
    sides = [node.left, *node.comparators]
    asked = next(filter(_is_question, sides), None)
    if asked is None or not all(isinstance(op, _ORDERS) for op in node.ops):
        return
    text, right = f"`{ast.unparse(node)}`", _right(asked, metric)
    if len(node.ops) > 1:
        yield f"{text} is a chain, and a {'limit' if _is_figure(asked) else 'margin'} has one side; {right}"
        return
    first, (op,) = _is_question(node.left), node.ops
    at_most = not _is_figure(asked) or asked.attr != THROUGHPUT
    if not isinstance(op, ast.LtE if first == at_most else ast.GtE):
        yield f"{text} is not a comparison that can be decided; {right}"
        return
    other = sides[1 if first else 0]
    if trouble := _wrong_limit(other, asked.attr) if _is_figure(asked) else _wrong_margin(other, metric):
        yield f"{text}: {trouble}; {right}"


def _wrong_margin(node: ast.expr, metric: Metric) -> str:
    """Return why a literal is not a margin of that metric; empty if it is one, or not a literal."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
        return f"{ast.unparse(node)} is not a margin, which is a text with a unit"
    if not isinstance(node, ast.Constant):
        return ""
    if not isinstance(node.value, str):
        return f"{node.value!r} is not a margin, which is a text with a unit"
    try:
        Margin.parse(node.value).check(metric)
    except UsageError as error:
        return str(error).partition("; use ")[0]
    return ""


def _wrong_limit(node: ast.expr, figure: str) -> str:
    """Return why a literal is not a limit of that figure; empty if it is one, or not a literal."""
    literal = node.operand if isinstance(node, ast.UnaryOp) else node
    if not isinstance(literal, ast.Constant):
        return ""
    try:
        Limit.parse(figure, literal.value if literal is node else ast.unparse(node))
    except UsageError as error:
        return str(error).partition("; use ")[0]
    return ""


def _truths(node: ast.AST) -> list[ast.expr]:
    """Return the expressions that a node evaluates as booleans."""
    found: list[ast.expr] = []
    if isinstance(node, ast.Assert | ast.If | ast.While | ast.IfExp):
        found = [node.test]
    elif isinstance(node, ast.BoolOp):
        found = node.values[:-1]  # the last one may be the value of the whole
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        found = [node.operand]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "bool":
        found = node.args
    return [_last(each) for each in found]


def _last(node: ast.expr) -> ast.expr:
    """Return the last operand of a boolean expression, nested ones included; any other expression itself."""
    return _last(node.values[-1]) if isinstance(node, ast.BoolOp) else node


def _question_in(node: ast.expr) -> ast.expr | None:
    """Return the question that a comparison asks; None for anything else."""
    return next(filter(_is_question, [node.left, *node.comparators]), None) if isinstance(node, ast.Compare) else None


def _is_question(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in _QUESTIONS and _is_measured(node.value)


def _is_measured(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "measured"


def _is_figure(node: ast.AST) -> TypeGuard[ast.Attribute]:
    return isinstance(node, ast.Attribute) and node.attr in FIGURES


def _right(asked: ast.expr, metric: Metric) -> str:
    if _is_figure(asked):
        sign = ">=" if asked.attr == THROUGHPUT else "<="
        return f'use `{ast.unparse(asked)} {sign} "{EXAMPLES[asked.attr]}"`'
    question = ast.unparse(asked)
    return f'use `{question} <= margin`, or a margin of its own: `{question} <= "{metric.margin}"`'
