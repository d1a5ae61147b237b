-- The chained record of who did what.

-- name: last_audit_hash
-- The hash that the next audit row is chained to; read after `lock_audit`.
SELECT hash FROM fencepost.audit ORDER BY no DESC LIMIT 1;

-- name: add_audit
-- Append an audit row.
INSERT INTO fencepost.audit (
    at, actor, verb, namespace, run_id, step, item, reason, outcome, before, after, previous, hash
) VALUES (
    :at, :actor, :verb, :namespace, :run_id, :step, :item, :reason, :outcome, :before, :after, :previous, :hash
) RETURNING no;

-- name: audits_of_run
-- The audit rows of one run, oldest first.
SELECT at, actor, verb, run_id, outcome, reason, before, after, namespace, step, item, no, previous, hash
FROM fencepost.audit WHERE namespace = :namespace AND run_id = :run_id ORDER BY no;

-- name: all_audits
-- Every audit row of the ledger, oldest first: the chain runs across runs and namespaces.
SELECT at, actor, verb, run_id, outcome, reason, before, after, namespace, step, item, no, previous, hash
FROM fencepost.audit WHERE :namespace::text IS NULL OR namespace = :namespace ORDER BY no;

-- name: list_audits
-- A page of audit rows, newest first; what is not given may be anything.
SELECT at, actor, verb, run_id, outcome, reason, before, after, namespace, step, item, no, previous, hash
FROM fencepost.audit
WHERE no < :before AND namespace = :namespace
AND (:verb::text IS NULL OR verb = :verb)
AND (:actor::text IS NULL OR actor = :actor)
AND (:outcome::text IS NULL OR outcome = :outcome)
ORDER BY no DESC LIMIT :limit;

-- name: list_audits_of_run
-- A page of one run's audit rows, newest first; what is not given may be anything.
SELECT at, actor, verb, run_id, outcome, reason, before, after, namespace, step, item, no, previous, hash
FROM fencepost.audit
WHERE no < :before AND namespace = :namespace AND run_id = :run_id
AND (:verb::text IS NULL OR verb = :verb)
AND (:actor::text IS NULL OR actor = :actor)
AND (:outcome::text IS NULL OR outcome = :outcome)
ORDER BY no DESC LIMIT :limit;
