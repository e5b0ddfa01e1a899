"""Check what a test's source asks of `measured`, as far as it can be read without running it.

Only what is certainly a mistake is one: what the source does not show (a margin that is computed, a claim in a function
elsewhere) is left to the run.
"""

from __future__ import annotations

import ast
import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from pytest_ipperf.core.closest_match import did_you_mean
from pytest_ipperf.core.design.margin import Margin
from pytest_ipperf.core.design.metric import Metric
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.metrics import METRICS

ATTRIBUTES = ("cell", "metric", "slowdown", "increase", "effect", "failures", "runs")
"""What `Measured` has; named here, as its own module loads what only a measurement needs."""
_QUESTIONS = ("slowdown", "increase")
_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)


def check_claims(function: Callable[..., Any], metric: str) -> None:
    """Raise UsageError, with the line, for what a test asks of `measured` and cannot mean."""
    tree = _source(function)
    if tree is None or any(_binds_measured(node) for statement in tree.body for node in ast.walk(statement)):
        return
    quantity = METRICS[metric].metric
    expected = {node for each in ast.walk(tree) for statement in _may_raise(each) for node in ast.walk(statement)}
    for node in ast.walk(tree):
        for mistake in () if node in expected else _mistakes(node, quantity):
            raise UsageError(f"line {getattr(node, 'lineno', tree.lineno)}: {mistake}")


def _binds_measured(node: ast.AST) -> bool:
    """Return whether a node gives the name to something else, such as to a parameter of a nested function."""
    if isinstance(node, ast.Name):
        return node.id == "measured" and not isinstance(node.ctx, ast.Load)
    if isinstance(node, ast.keyword):  # which names a parameter of another function
        return False
    return "measured" in (getattr(node, name, None) for name in ("arg", "name", "asname", "rest"))


def _may_raise(node: ast.AST) -> Sequence[ast.stmt]:
    """Return the statements of a node that are prepared for an error, as those of `with pytest.raises(...)`."""
    if isinstance(node, ast.With | ast.AsyncWith):
        called = [each.context_expr.func for each in node.items if isinstance(each.context_expr, ast.Call)]
        names = {getattr(each, "attr", getattr(each, "id", "")) for each in called}
        return node.body if names & {"raises", "suppress"} else []
    return node.body if isinstance(node, ast.Try | ast.TryStar) and node.handlers else []


def _source(function: Callable[..., Any]) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """Return the test as it is written; None where that cannot be had, as of one that was made by a program."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return None
    try:
        state = os.stat(code.co_filename)  # noqa: PTH116 - the name that the code has, whatever it is
    except (OSError, ValueError):
        return None
    known = _functions(code.co_filename, state.st_mtime_ns, state.st_size)
    return known.get((code.co_name, code.co_firstlineno))


@lru_cache(maxsize=4)  # pytest collects one file after the other; one process may collect a file that was changed
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
            yield f"`{ast.unparse(truth)}` alone asks nothing; {_right(truth, metric)}"
    for asserted in _parts(node.test) if isinstance(node, ast.Assert) else ():
        yield from _wrong_assertion(asserted, metric)


def _known(attribute: str) -> bool:
    return attribute in ATTRIBUTES or attribute.startswith("__")


def _parts(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the expressions that must all be true for one to be."""
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        for value in node.values:
            yield from _parts(value)
    else:
        yield node


def _wrong_assertion(node: ast.expr, metric: Metric) -> Iterator[str]:
    """Yield why an answer is turned round or has no effect; elsewhere than in an assertion both may be meant."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) and (asked := _question_in(node.operand)):
        yield (
            f"`{ast.unparse(node)}` would be green for a breach and red for what is within the margin; "
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
        yield f"{text} is a chain, and a margin has one side; {right}"
        return
    first, (op,) = _is_question(node.left), node.ops
    if not isinstance(op, ast.LtE if first else ast.GtE):
        yield f"{text} is no question that has an answer; {right}"
        return
    other = sides[1 if first else 0]
    if trouble := _wrong_margin(other, metric):
        yield f"{text}: {trouble}; {right}"


def _wrong_margin(node: ast.expr, metric: Metric) -> str:
    """Return why what is written there is no margin for that metric; empty where it is one, or is not written there."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
        return f"{ast.unparse(node)} is no margin, which is a text with a unit"
    if not isinstance(node, ast.Constant):
        return ""
    if not isinstance(node.value, str):
        return f"{node.value!r} is no margin, which is a text with a unit"
    try:
        Margin.parse(node.value).check(metric)
    except UsageError as error:
        return str(error).partition("; right is")[0]
    return ""


def _truths(node: ast.AST) -> list[ast.expr]:
    """Return the expressions whose truth a node asks for."""
    found: list[ast.expr] = []
    if isinstance(node, ast.Assert | ast.If | ast.While | ast.IfExp):
        found = [node.test]
    elif isinstance(node, ast.BoolOp):
        found = node.values[:-1]  # the last is the value of the whole
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        found = [node.operand]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "bool":
        found = node.args
    return [_last(each) for each in found]


def _last(node: ast.expr) -> ast.expr:
    """Return the value that decides on the truth of an expression at the latest."""
    return _last(node.values[-1]) if isinstance(node, ast.BoolOp) else node


def _question_in(node: ast.expr) -> ast.expr | None:
    """Return the question that a comparison asks; None for anything else."""
    return next(filter(_is_question, [node.left, *node.comparators]), None) if isinstance(node, ast.Compare) else None


def _is_question(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in _QUESTIONS and _is_measured(node.value)


def _is_measured(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "measured"


def _right(asked: ast.expr, metric: Metric) -> str:
    question = ast.unparse(asked)
    return f'right is `{question} <= margin`, or with a margin of its own `{question} <= "{metric.margin}"`'
