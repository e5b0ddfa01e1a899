"""Find comprehensions whose variable hides, in one function, a name that the function reads from outside.

Python 3.12 compiles list, set and dict comprehensions into the function around them (PEP 709). Up to 3.12.3, and with
names of an enclosing function up to 3.13.0, such a name is then taken for the function's own variable, which has no
value yet: `[row for row in rows]` beside `[row(each) for each in rows]` ends in UnboundLocalError.
"""

import ast

_INLINED = (ast.ListComp, ast.SetComp, ast.DictComp)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_SCOPES = (*_FUNCTIONS, ast.ClassDef, ast.GeneratorExp)


def shadowed(source):
    """List (line of the function, name) for each such name in the text of a module."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (*_FUNCTIONS, ast.GeneratorExp)):
            scope = _Scope(node)
            found += [(node.lineno, name) for name in sorted(scope.targets & (scope.read - scope.own))]
    return found


class _Scope(ast.NodeVisitor):
    """The names of one function, without those of the functions and classes in it."""

    def __init__(self, node):
        self.own, self.read, self.targets = set(), set(), set()
        self._outside: set[str] = set()  # declared `global` or `nonlocal`
        self._around: frozenset[str] = frozenset()  # names bound by the comprehensions around the current node
        if isinstance(node, ast.GeneratorExp):
            self.own |= _bound(node)
            for each in _parts(node):
                self.visit(each)
        else:
            arguments = node.args
            every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg)
            self.own |= {each.arg for each in every if each}
            for each in node.body if isinstance(node.body, list) else [node.body]:
                self.visit(each)
        self.own -= self._outside

    def visit(self, node):
        if isinstance(node, _INLINED):
            self._comprehension(node)
        elif isinstance(node, _SCOPES):
            self._inner_scope(node)
        elif isinstance(node, ast.Name):
            self._name(node)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            self._outside.update(node.names)
        else:
            # Imports, `except ... as`, and patterns of `match` bind by a plain string.
            if isinstance(node, ast.alias):
                self.own.add((node.asname or node.name).partition(".")[0])
            elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
                self.own.add(node.name)
            elif isinstance(node, ast.MatchMapping) and node.rest:
                self.own.add(node.rest)
            self.generic_visit(node)

    def _name(self, node):
        if isinstance(node.ctx, ast.Load):
            self.read |= {node.id} - self._around
        elif node.id not in self._around:
            self.own.add(node.id)

    def _comprehension(self, node):
        self.visit(node.generators[0].iter)  # evaluated outside the comprehension's own scope
        self.targets |= _bound(node)
        before, self._around = self._around, self._around | _bound(node)
        for each in _parts(node):
            self.visit(each)
        self._around = before

    def _inner_scope(self, node):
        """Visit the parts of an inner scope that are evaluated in this one."""
        if isinstance(node, ast.GeneratorExp):
            self.visit(node.generators[0].iter)
            return
        if not isinstance(node, ast.Lambda):
            self.own.add(node.name)
            for each in node.decorator_list:
                self.visit(each)
        if isinstance(node, _FUNCTIONS):
            for each in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
                self.visit(each)
        else:
            for each in (*node.bases, *(keyword.value for keyword in node.keywords)):
                self.visit(each)


def _bound(node):
    targets = [part for generator in node.generators for part in ast.walk(generator.target)]
    return {part.id for part in targets if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}


def _parts(node):
    """List the parts of a comprehension that see its names: all but the first iterable."""
    first, *further = node.generators
    parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
    parts += [first.target, *first.ifs]
    return parts + [part for generator in further for part in (generator.target, generator.iter, *generator.ifs)]
