"""The room that keeps work moving: the app, its workers and leases, and the operator's verbs."""
