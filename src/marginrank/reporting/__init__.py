"""A page about systems on judged queries: `gathering` finds the facts, `charts` and `page` show them."""
