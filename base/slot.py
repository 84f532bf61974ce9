"""A slot: a value that a package needs and a package above it provides. topics_project/wiring.py fills every slot."""

from typing import Generic, TypeVar

T = TypeVar("T")


class Slot(Generic[T]):
    """Holds one value, which is set once in the life of a process. A read before that raises AttributeError."""

    __slots__ = ("value",)
    value: T

    def set(self, value: T) -> None:
        """Raises RuntimeError if the slot already has a value: the second package would silently replace the first one."""
        if hasattr(self, "value"):
            raise RuntimeError(f"this slot already holds {self.value!r}: topics_project/wiring.py sets each slot once")
        self.value = value
