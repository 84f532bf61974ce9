#!/usr/bin/env python
"""The command line in a clone (topics_project/__main__.py)."""

from topics_project.__main__ import main

if __name__ == "__main__":
    main()
