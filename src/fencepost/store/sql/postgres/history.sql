-- Everything of one run, one query per table.

-- name: steps_of
-- The recorded positions of a run, in the order in which they were opened.
SELECT position, kind, name, fingerprint, state, opened_at, version, request, detail, result, error, delivered, due_at,
    closed_at, beaten_at, progress
FROM fencepost.step WHERE run = :run ORDER BY no;

-- name: operations_of
-- The operations of a run, in the order in which they were reserved.
SELECT run, step, item, effect, contract_version, key, key_scheme, request, fingerprint, state, reserved_at, scope,
    policy, conflict, lookups, generation, version, compensates, reference, result, error, delivered, delivered_at,
    not_before, first_dispatched_at, budget_from, changed_at, approval
FROM fencepost.operation WHERE run = :run ORDER BY no;

-- name: attempts_of
-- The attempts of a run's operations, in order; the first one stands in the operation's own row.
SELECT step, item, 1 AS number, first_dispatched_at, first_send_by, first_span_ends_at, first_lease, first_generation,
    first_outcome, first_token, first_evidence, first_sends, first_settled_at
FROM fencepost.operation WHERE run = :run AND attempts > 0
UNION ALL
SELECT step, item, number, dispatched_at, send_by, span_ends_at, lease, generation, outcome, token, evidence, sends,
    settled_at
FROM fencepost.attempt WHERE run = :run
ORDER BY step, item, number;

-- name: observations_of
-- What was seen of a run's operations, in order.
SELECT step, item, kind, says, evidence, seen_at, attempt, began_at, lease, generation, current, no
FROM fencepost.observation WHERE run = :run ORDER BY no;

-- name: signals_of
-- The signals of a run, in the order in which they came.
SELECT id, name, payload, state, sent_at, sender, fingerprint, reason, position, closed_at
FROM fencepost.signal WHERE run = :run ORDER BY no;
