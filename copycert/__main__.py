"""`python -m copycert`: the command line."""

from copycert.command import main

main()
