"""The growth of each operation with the store: buffers and rows at 1 %, at 10 % and at all of it (docs/benchmarks.md)."""
