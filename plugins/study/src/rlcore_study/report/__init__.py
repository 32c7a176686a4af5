"""``rlcore report``: one HTML page about one or several runs."""
