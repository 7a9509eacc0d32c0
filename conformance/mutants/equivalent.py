"""Changes of the NumPy backend that no check can notice: by rule, and one by one with the reason."""

import ast
from collections.abc import Iterator, Mapping

from gaugeblock.conformance.mutants import (
    equivalent_attention,
    equivalent_components,
    equivalent_compositions,
    equivalent_models,
)
from gaugeblock.conformance.mutants.ast_mutation import Mutation, is_asarray
from gaugeblock.conformance.mutants.reasons import ARRAY, ORDER, WIDENED

EQUIVALENT: Mapping[tuple[str, str, str], str] = {
    **equivalent_components.EQUIVALENT,
    **equivalent_attention.EQUIVALENT,
    **equivalent_compositions.EQUIVALENT,
    **equivalent_models.EQUIVALENT,
}


def excuse(module: str, mutation: Mutation, *, arrays: bool) -> str:
    """Why no check can notice a change, "" where one might.

    arrays says that all that becomes an array on the line is one already.
    """
    if arrays and mutation.kind == "call dropped" and _without_asarray(mutation):
        return ARRAY
    if mutation.kind == "arguments swapped" and _in_other_order(mutation):
        return ORDER
    if mutation.kind == "call dropped" and _one_of_two_upcast(mutation):
        return WIDENED
    return EQUIVALENT.get((module, mutation.before, mutation.after), "")


def _in_other_order(mutation: Mutation) -> bool:
    """Whether the change is that arguments stand in another order where that is free."""
    before, after = (_parsed(text) for text in (mutation.before, mutation.after))
    return ast.dump(_Sorted().visit(before)) == ast.dump(_Sorted().visit(after))


def _one_of_two_upcast(mutation: Mutation) -> bool:
    """Whether the change is that one operand is no longer widened, where the other still is."""
    after = ast.dump(_parsed(mutation.after))
    for n in range(len(list(_both_upcast(_parsed(mutation.before))))):
        for side in ("left", "right"):
            before = _parsed(mutation.before)
            operation = list(_both_upcast(before))[n]
            setattr(operation, side, getattr(operation, side).args[0])
            if ast.dump(before) == after:
                return True
    return False


def _both_upcast(tree: ast.AST) -> Iterator[ast.BinOp]:
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and all(_is_upcast(operand) for operand in (node.left, node.right)):
            yield node


def _is_upcast(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "upcast"


def _without_asarray(mutation: Mutation) -> bool:
    """Whether the change is that np.asarray is left out."""
    before, after = (_parsed(text) for text in (mutation.before, mutation.after))
    count = sum(map(is_asarray, ast.walk(before))) - sum(map(is_asarray, ast.walk(after)))
    return count == 1 and ast.dump(_Bare().visit(before)) == ast.dump(_Bare().visit(after))


def _parsed(text: str) -> ast.Module:
    """A statement; the head of one that holds others with nothing in it."""
    return ast.parse(f"{text} pass" if text.endswith(":") else text)


class _Bare(ast.NodeTransformer):
    """Leaves out every np.asarray of one argument."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        return node.args[0] if is_asarray(node) else node


# how many arguments, the first ones, may stand in any order
FREE: Mapping[str, int] = {"max": 2, "min": 2, "maximum": 2, "minimum": 2, "swapaxes": 2, "clip": 2}


class _Sorted(ast.NodeTransformer):
    """Puts in order the arguments of functions that do not ask for it."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        free = FREE.get(ast.unparse(node.func).rpartition(".")[2], 0)
        node.args[:free] = sorted(node.args[:free], key=ast.unparse)
        return node
