"""The check before a release: `make release-check` builds the package twice and tries it in clean environments."""
