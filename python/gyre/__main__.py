"""python -m gyre: the gyre command."""

from gyre._command import main

main()
