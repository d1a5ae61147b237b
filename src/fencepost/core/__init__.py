"""The room that decides: pure functions over states, outcomes and history, without clock, chance or I/O.

- words: `states`, `records`, `errors`, `duration`, `identity`, `position`
- what may happen: `transitions`, `contract`, `guarantee`
- what is known and done next: `outcome`, `classify`, `retry`, `recovery`, `compensation`, `waits`
- the workflow: `driver` with `language`, `asks`, `branch`, `pending`, `refusal`, `draws`
"""
