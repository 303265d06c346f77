"""No assertions on user errors, named exceptions, and readable files and functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

TOP_FOLDERS = ("privacy", "envs", "algorithms", "platform", "papers")
EVERYWHERE = (*TOP_FOLDERS, "package", "benchmarks", "tests")
MOST_LINES = 900
MOST_FUNCTION_LINES = 90
SWALLOWERS = {"Exception", "BaseException"}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def sources(root: Path, folders: tuple[str, ...]) -> Iterator[tuple[Path, str]]:
    """Yield (path relative to the root, text) of every Python file below the folders."""
    for folder in folders:
        for path in sorted((root / folder).rglob("*.py")):
            if "__pycache__" not in path.parts:
                yield path.relative_to(root), path.read_text()


def test_files_and_functions_are_short(root: Path) -> None:
    """There are no files and functions that are too long; docstrings count."""
    complaints = []
    for path, source in sources(root, EVERYWHERE):
        lines = len(source.splitlines())
        if lines > MOST_LINES:
            complaints.append(f"{path}: {lines} lines, at most {MOST_LINES}")
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, Function):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > MOST_FUNCTION_LINES:
                    complaints.append(f"{path}: {node.name} has {length} lines, at most {MOST_FUNCTION_LINES}")
    assert complaints == []


def swallows(handler: ast.ExceptHandler) -> bool:
    """Return whether the handler catches everything without first raising unexpected errors again."""
    if handler.type is None:
        return True
    first = handler.body[0]
    if isinstance(first, ast.If) and isinstance(first.body[0], ast.Raise) and first.body[0].exc is None:
        return False
    return any(isinstance(node, ast.Name) and node.id in SWALLOWERS for node in ast.walk(handler.type))


def test_errors_are_named(root: Path) -> None:
    """There are no assertions in the code folders, and handlers there and in benchmarks that catch everything."""
    complaints = []
    for path, source in sources(root, (*TOP_FOLDERS, "benchmarks")):
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Assert) and path.parts[0] in TOP_FOLDERS:
                complaints.append(f"{path}:{node.lineno}: raise an error that names rule, value and remedy")
            if isinstance(node, ast.ExceptHandler) and swallows(node):
                complaints.append(f"{path}:{node.lineno}: name the errors that are expected here")
    assert complaints == []


def undocumented(trees: Sequence[ast.Module]) -> list[str]:
    """Return the public methods of public classes without a docstring, unless a base class here documents them."""
    classes = {node.name: node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}

    def documents(name: str, method: str) -> bool:
        if (found := classes.get(name)) is None:
            return False
        declared = [node for block in found.body if isinstance(block, ast.If) for node in block.body]  # TYPE_CHECKING
        own = (node for node in (*found.body, *declared) if isinstance(node, Function) and node.name == method)
        bases = (base.value if isinstance(base, ast.Subscript) else base for base in found.bases)
        return any(map(ast.get_docstring, own)) or any(documents(ast.unparse(base), method) for base in bases)

    return [
        f"{name}.{node.name}"
        for name, found in classes.items()
        for node in found.body
        if isinstance(node, Function) and not name.startswith("_") and not node.name.startswith("_")
        if not documents(name, node.name)
    ]


def compiles(node: ast.AST) -> bool:
    """Return whether a statement imports what compiles functions."""
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
    if isinstance(node, ast.ImportFrom):
        # Its errors, types and loops compile nothing; an overload is compiled with its caller.
        harmless = names in (["NumbaError"], ["types"], ["overload"], ["literal_unroll"])
        return (node.module or "").partition(".")[0] == "numba" and not harmless
    return any(name.partition(".")[0] == "numba" for name in names)


def test_kernels_are_compiled_in_one_way(root: Path) -> None:
    """There are no files that compile by themselves.

    Numba's cache checks the caller's file only, so a changed callee elsewhere would be ignored. `compiled.py` names its
    folder by a digest of all code.
    """
    assert [
        f"{path}: compile through package/compiled.py"
        for path, source in sources(root, TOP_FOLDERS)
        if path.name != "compiled.py" and "numba" in source and any(map(compiles, ast.walk(ast.parse(source))))
    ] == []


def test_methods_are_documented(root: Path) -> None:
    assert undocumented([ast.parse(source) for _, source in sources(root, (*TOP_FOLDERS, "package"))]) == []
    bases = "class A:\n def f(self): 'What it does.'\nclass B(A):\n def f(self): ...\n def g(self): ..."
    assert undocumented([ast.parse(bases)]) == ["B.g"]
