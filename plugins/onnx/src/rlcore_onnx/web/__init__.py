"""The exporter ``web``: one page in which a policy plays its task, without a server and without a network."""
