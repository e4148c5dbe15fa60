"""The command line: one thin module per command, assembled by `marginrank.cli.app`."""
