"""Counts the names of classes that stand in more than one module of the product. Fails if there are more than before.

A reader who meets such a name must look at the imports to know which class is meant. So a new class gets a name of its own, and
a change that lowers the count lowers MOST.
"""

import ast
import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = re.findall(r"^    (\w+)  ", (Path(__file__).parent / "layers.py").read_text(), re.MULTILINE)
OF_DJANGO = "Command"  # Django finds the class of a command by this name
MOST = 56

modules = defaultdict(list)
for package in PACKAGES:
    for file in sorted((ROOT / package).rglob("*.py")):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef) and node.name != OF_DJANGO and file.parent.name != "migrations":
                modules[node.name].append(str(file.relative_to(ROOT)))

shared = {name: files for name, files in modules.items() if len(files) > 1}
if is_above := len(shared) > MOST:
    for name, files in sorted(shared.items(), key=lambda each: -len(each[1])):
        print(f"{name}: {', '.join(files)}")
print(f"{len(shared)} names of {len(modules)} classes stand in more than one module, of at most {MOST}.")
sys.exit(is_above)
