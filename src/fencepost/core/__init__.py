"""The room that decides: pure functions over states, outcomes and history, without clock, chance or I/O."""
