"""A YAML document with the line of each value, because faults of a configuration name their line."""

from __future__ import annotations

from typing import Any, NamedTuple

import yaml

MOST_NODES = 100_000  # aliases can refer to each other and expand a small file without bound

Path = tuple[str | int, ...]


class Fault(NamedTuple):
    """A mistake at a line, and the change that fixes the mistake. Lines count from 1."""

    line: int
    text: str


class Document:
    """The values of a file, and the line of each value. `value` is None if `faults` is not empty."""

    def __init__(self, text: str) -> None:
        self.value: Any = None
        self.faults: list[Fault] = []
        self._lines: dict[Path, int] = {(): 1}
        loader = yaml.CSafeLoader(text)
        try:
            root = loader.get_single_node()
            if root is not None:
                self._walk(root, (), ())
                self.value = None if self.faults else loader.construct_document(root)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            self.faults.append(Fault(mark.line + 1 if mark else 1, f"The file is not YAML: {error.problem}."))
        except (
            yaml.YAMLError,
            ValueError,
        ) as error:  # a character that YAML forbids, or an invalid number or date
            self.faults.append(Fault(1, f"The file is not YAML: {' '.join(str(error).split())}."))
        finally:
            loader.dispose()

    def line(self, path: Path) -> int:
        """Returns the line of a value. Returns the line of the closest enclosing value if the value is absent."""
        while path not in self._lines:
            path = path[:-1]
        return self._lines[path]

    def has(self, path: Path) -> bool:
        return path in self._lines

    def _walk(self, node: yaml.Node, path: Path, ancestors: tuple[yaml.Node, ...]) -> None:
        self._lines.setdefault(path, node.start_mark.line + 1)
        if node in ancestors:
            self.faults.append(
                Fault(
                    node.start_mark.line + 1,
                    "An alias refers to the value that contains the alias: write the value out.",
                )
            )
            return
        if len(self._lines) > MOST_NODES:
            raise yaml.YAMLError(f"too many values, expected at most {MOST_NODES}")
        if isinstance(node, yaml.SequenceNode):
            for place, each in enumerate(node.value):
                self._walk(each, (*path, place), (*ancestors, node))
        elif isinstance(node, yaml.MappingNode):
            seen: dict[str, int] = {}
            for key, value in node.value:
                line, name = key.start_mark.line + 1, str(key.value)
                if key.tag == "tag:yaml.org,2002:merge":
                    self.faults.append(Fault(line, "The merge key << is not supported: write the fields out."))
                elif name in seen:
                    again = f"{name!r} occurs twice, first in line {seen[name]}: remove one of the two."
                    self.faults.append(Fault(line, again))
                seen[name] = line
                self._lines[(*path, name)] = line
                self._walk(value, (*path, name), (*ancestors, node))
