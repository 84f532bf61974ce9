"""Builds the command `topics` into the wheel, from the modules of the server's command that need no Django.

The command has one source, `shell/` with parts of `base/`. In the wheel these packages are `topics_client._command.shell` and
`topics_client._command.base`, because other wheels must not have packages of these names. So the hook rewrites their imports.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).parent.parent.parent
INSIDE = "topics_client/_command"
BASE = ("__init__", "bounds", "clock", "depth", "errors", "refusal", "surrogates", "units")
ONLY_LOCAL = ("local", "local_stream", "usage")  # imported if the command uses a database
IMPORTS = re.compile(r"^(\s*(?:from|import) )(base|shell)(?=[. ])", re.MULTILINE)


class CommandHook(BuildHookInterface):
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable" or not (ROOT / "shell").is_dir():  # a source distribution has the command already
            return
        self.made = tempfile.TemporaryDirectory()
        folder = Path(self.made.name)
        (folder / "__init__.py").touch()
        for module in modules():
            file = folder / module.relative_to(ROOT)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(IMPORTS.sub(rf"\1{INSIDE.replace('/', '.')}.\2", module.read_text()))
        build_data["force_include"][str(folder)] = INSIDE

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if hasattr(self, "made"):
            self.made.cleanup()


def modules() -> list[Path]:
    """Returns the files of the command."""
    shell = [each for each in (ROOT / "shell").rglob("*.py") if each.stem not in ONLY_LOCAL]
    return [*shell, *(ROOT / "base" / f"{name}.py" for name in BASE)]
