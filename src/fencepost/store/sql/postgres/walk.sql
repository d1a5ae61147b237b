-- A whole ledger, read once from one moment, a few runs at a time. `:after` and `:last` are numbers of runs: also what
-- belongs to a run between them that is not there is found.

-- name: walk_runs
-- The next runs by their number.
SELECT no, namespace, id, workflow, workflow_version, input, fingerprint, state, generation, version, created_at,
    changed_at, principal, lease, wake_at, parent, result, error, hold, cancel, delivered, ended_at, takeovers,
    resource, parent_step, turn, behind, queue, queue_key, priority
FROM fencepost.run WHERE no > :after ORDER BY no LIMIT :limit;

-- name: walk_steps
-- The positions of these runs that are no effects, in the order in which they were opened.
SELECT run, position, kind, name, fingerprint, state, opened_at, version, request, detail, result, error, delivered,
    due_at, closed_at, beaten_at, progress
FROM fencepost.step WHERE run > :after AND run <= :last ORDER BY run, no;

-- name: walk_operations
-- The operations of these runs, in the order in which they were reserved, and how many attempts each says that it has.
SELECT run, step, item, effect, contract_version, key, key_scheme, request, fingerprint, state, reserved_at, scope,
    policy, conflict, lookups, generation, version, compensates, reference, result, error, delivered, delivered_at,
    not_before, first_dispatched_at, budget_from, changed_at, attempts
FROM fencepost.operation WHERE run > :after AND run <= :last ORDER BY run, no;

-- name: walk_attempts
-- The attempts of these runs' operations, in order; the first one stands in the operation's own row.
SELECT run, step, item, 1 AS number, first_dispatched_at, first_send_by, first_span_ends_at, first_lease,
    first_generation, first_outcome, first_token, first_evidence, first_sends, first_settled_at
FROM fencepost.operation WHERE run > :after AND run <= :last AND first_dispatched_at IS NOT NULL
UNION ALL
SELECT run, step, item, number, dispatched_at, send_by, span_ends_at, lease, generation, outcome, token, evidence,
    sends, settled_at
FROM fencepost.attempt WHERE run > :after AND run <= :last
ORDER BY run, step, item, number;

-- name: walk_observations
-- What was seen of these runs' operations, in order.
SELECT run, step, item, kind, says, evidence, seen_at, attempt, began_at, lease, generation, current, no
FROM fencepost.observation WHERE run > :after AND run <= :last ORDER BY run, no;

-- name: walk_signals
-- The signals of these runs, in the order in which they came.
SELECT run, id, name, payload, state, sent_at, sender, fingerprint, reason, position, closed_at
FROM fencepost.signal WHERE run > :after AND run <= :last ORDER BY run, no;

-- name: walk_leases
-- The leases under which these runs are owned, with the number of the run.
SELECT run.no, lease.id, host, boot_id, pid, process_started, lease.state, taken_at, renewed_at, expires_at, closed_at,
    margin, carries
FROM fencepost.run JOIN fencepost.lease ON lease.id = run.lease
WHERE run.no > :after AND run.no <= :last ORDER BY run.no;

-- name: walk_kin
-- Of those of these runs that have a parent, or are not their runs' only turn: how the parent stands, and its position
-- that waits for the run; how many rows are the same turn, the turn before, whether there is a next one, and whether the
-- parent was purged.
SELECT run.no, above.state, step.state, (
        SELECT count(*) FROM fencepost.run AS same
        WHERE same.namespace = run.namespace AND same.id = run.id AND same.turn = run.turn
    ), before.state, before.fingerprint, EXISTS (
        SELECT 1 FROM fencepost.run AS next
        WHERE next.namespace = run.namespace AND next.id = run.id AND next.turn = run.turn + 1
    ), above.purged_at IS NOT NULL
FROM fencepost.run
LEFT JOIN fencepost.run AS above ON above.no = run.parent
LEFT JOIN fencepost.step ON step.run = run.parent AND step.position = run.parent_step AND step.kind = 'child'
LEFT JOIN fencepost.run AS before ON before.namespace = run.namespace AND before.id = run.id AND before.turn = run.turn - 1
WHERE run.no > :after AND run.no <= :last AND (run.parent IS NOT NULL OR run.turn > 0 OR run.state = 'continued')
ORDER BY run.no;

-- name: walk_verbs
-- What the audit says was done to these runs: how often each verb.
SELECT run.no, verb, count(*)
FROM fencepost.run JOIN fencepost.audit ON audit.namespace = run.namespace AND audit.run_id = run.id
WHERE run.no > :after AND run.no <= :last AND outcome = 'done' GROUP BY run.no, verb ORDER BY run.no, verb;

-- name: walk_audits
-- The next audit rows of the whole ledger, oldest first.
SELECT at, actor, verb, run_id, outcome, reason, before, after, namespace, step, item, no, previous, hash
FROM fencepost.audit WHERE no > :after ORDER BY no LIMIT :limit;

-- name: find_audit
-- The number of the audit row with this hash.
SELECT min(no) FROM fencepost.audit WHERE hash = :hash;

-- name: walk_shared_keys
-- Keys of these runs' operations that more than one operation has, with how many.
SELECT key, count(*) FROM fencepost.operation
WHERE key IN (SELECT key FROM fencepost.operation WHERE run > :after AND run <= :last)
GROUP BY key HAVING count(*) > 1 ORDER BY key;

-- name: audits_of_nothing
-- Audit rows that tell what was done to a run that is not there; what concerns the whole ledger names none, and a
-- verb on a schedule, a queue, a job on many runs, a token, a person or what is contained names that.
SELECT no, verb, run_id FROM fencepost.audit
WHERE outcome = 'done' AND run_id <> '' AND verb NOT LIKE '% schedule' AND verb NOT LIKE '% queue'
AND verb NOT LIKE '% bulk' AND verb NOT LIKE '% token' AND verb NOT LIKE '% account'
AND verb NOT IN ('contain', 'release', 'invite', 'sign in', 'sign out')
AND NOT EXISTS (SELECT 1 FROM fencepost.run WHERE run.namespace = audit.namespace AND run.id = audit.run_id)
ORDER BY no LIMIT :limit;

-- name: silent_proposals
-- Proposals that were confirmed, while no audit row says that their verb was done by whoever confirmed them.
SELECT proposal.no, proposal.verb, run.id FROM fencepost.proposal JOIN fencepost.run ON run.no = proposal.run
WHERE proposal.state = 'confirmed' AND NOT EXISTS (
    SELECT 1 FROM fencepost.audit
    WHERE audit.namespace = run.namespace AND audit.run_id = run.id AND audit.verb = proposal.verb
    AND outcome = 'done' AND actor = closed_by AND (after::json ->> 'proposal')::bigint = proposal.no
)
ORDER BY proposal.no LIMIT :limit;

-- name: silent_ticks
-- Runs of jobs on many that are ticked off as done, while no audit row says that the verb was done to them.
SELECT bulk.no, bulk.verb, run.id
FROM fencepost.bulk_run JOIN fencepost.bulk ON bulk.no = bulk_run.bulk JOIN fencepost.run ON run.no = bulk_run.run
WHERE bulk_run.outcome = 'done' AND NOT EXISTS (
    SELECT 1 FROM fencepost.audit
    WHERE audit.namespace = run.namespace AND audit.run_id = run.id AND audit.verb = bulk.verb
    AND audit.outcome = 'done'
)
ORDER BY bulk.no, bulk_run.place LIMIT :limit;

-- name: leases_half_closed
-- Leases that are live and over at once, or neither.
SELECT id, state FROM fencepost.lease WHERE (state = 'live') <> (closed_at IS NULL) ORDER BY id LIMIT :limit;

-- name: tokens_below
-- Tokens that the last restore should have made void.
SELECT resource, number FROM fencepost.token WHERE number < :base ORDER BY resource LIMIT :limit;

-- name: highest_token
-- The highest token that was issued for any resource; none if no resource has one.
SELECT max(number) FROM fencepost.token;
