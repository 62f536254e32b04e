"""Checks of an exported folder that need Python: syntax, parsers of the programs, and a dry start of the script."""
