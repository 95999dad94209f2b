"""The command line: a command parses, calls one public function, and prints."""

from copycert.command._main import main as main
