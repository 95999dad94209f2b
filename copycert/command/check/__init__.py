"""`copycert check`: the command, and its table of one screen."""

from copycert.command.check._command import check_command as check_command
