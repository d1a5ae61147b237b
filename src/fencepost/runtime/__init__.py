"""The room that keeps work moving: the app, its workers and leases, and the operator's verbs.

- outside's view: `app`, `ledger`, `handle`, `portal`, `contracts`
- declared and spoken: `workflow`, `single`, `run`, `report`
- one run's life: `worker`, `lease`, `execution` with `replay`, `intent`, `performing`, `positions`, `leftovers`,
  `compensating`, `closing`, `guard`
- people and evidence: `verbs`, `moves`, `audit`, `late`, `blame`
"""
