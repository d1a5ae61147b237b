-- Runs: started, claimed, loaded, listed. `:workflows` is a JSON list of [name, version].

-- name: start_run
-- Insert a run unless its id exists, or one that stands for the same in its queue.
INSERT INTO run (
    namespace, id, workflow, workflow_version, principal, input, fingerprint, state, generation, version, lease,
    wake_at, parent, parent_step, created_at, changed_at, resource,
    queue, queue_key, priority, dedup
) VALUES (
    :namespace, :id, :workflow, :workflow_version, :principal, :input, :fingerprint,
    CASE WHEN :lease IS NULL THEN 'ready' ELSE 'running' END,
    coalesce((SELECT max(number) * 1048576 FROM epoch), 0) + (:lease IS NOT NULL), 0, :lease,
    CASE WHEN :lease IS NULL THEN :wake_at END, :parent, :parent_step, :at, :at, :resource,
    :queue, :queue_key, :priority, :dedup
) ON CONFLICT DO NOTHING;

-- name: find_run
-- The run with this id: its last turn.
SELECT no, namespace, id, workflow, workflow_version, input, fingerprint, state, generation, version, created_at,
    changed_at, principal, lease, wake_at, parent, result, error, hold, cancel, delivered, ended_at,
    takeovers, resource, parent_step, turn, behind, queue, queue_key, priority
FROM run WHERE namespace = :namespace AND id = :id ORDER BY turn DESC LIMIT 1;

-- name: load_run
-- The run with this number.
SELECT no, namespace, id, workflow, workflow_version, input, fingerprint, state, generation, version, created_at,
    changed_at, principal, lease, wake_at, parent, result, error, hold, cancel, delivered, ended_at,
    takeovers, resource, parent_step, turn, behind, queue, queue_key, priority
FROM run WHERE no = :run;

-- name: list_runs
-- A page of runs in any state, newest first; of each its last turn.
SELECT no, namespace, id, workflow, workflow_version, input, fingerprint, state, generation, version, created_at,
    changed_at, principal, lease, wake_at, parent, result, error, hold, cancel, delivered, ended_at,
    takeovers, resource, parent_step, turn, behind, queue, queue_key, priority
FROM run
WHERE namespace = :namespace AND no < :after AND state <> 'continued'
AND (:workflow IS NULL OR workflow = :workflow)
AND (:prefix IS NULL OR substr(id, 1, length(:prefix)) = :prefix)
ORDER BY no DESC LIMIT :limit;

-- name: list_runs_in_state
-- A page of runs in one state, newest first.
SELECT no, namespace, id, workflow, workflow_version, input, fingerprint, state, generation, version, created_at,
    changed_at, principal, lease, wake_at, parent, result, error, hold, cancel, delivered, ended_at,
    takeovers, resource, parent_step, turn, behind, queue, queue_key, priority
FROM run
WHERE namespace = :namespace AND state = :state AND no < :after
AND (:workflow IS NULL OR workflow = :workflow)
AND (:prefix IS NULL OR substr(id, 1, length(:prefix)) = :prefix)
ORDER BY no DESC LIMIT :limit;

-- name: children_of
-- The runs that a run has started, in that order; of each its last turn.
SELECT no, namespace, id, workflow, workflow_version, input, fingerprint, state, generation, version, created_at,
    changed_at, principal, lease, wake_at, parent, result, error, hold, cancel, delivered, ended_at,
    takeovers, resource, parent_step, turn, behind, queue, queue_key, priority
FROM run WHERE parent = :run AND state <> 'continued' ORDER BY no;

-- name: find_turn
-- An earlier turn of a run.
SELECT no, namespace, id, workflow, workflow_version, input, fingerprint, state, generation, version, created_at,
    changed_at, principal, lease, wake_at, parent, result, error, hold, cancel, delivered, ended_at,
    takeovers, resource, parent_step, turn, behind, queue, queue_key, priority
FROM run WHERE namespace = :namespace AND id = :id AND turn = :turn;

-- name: unknown_below
-- The first operations that are unknown in a run's attached children, and in theirs.
WITH RECURSIVE below (no, id) AS (
    SELECT no, id FROM run WHERE parent = :run AND parent_step IS NOT NULL
    UNION ALL
    SELECT run.no, run.id FROM below JOIN run ON run.parent = below.no AND run.parent_step IS NOT NULL
)
SELECT below.id, step, item FROM below JOIN operation ON operation.run = below.no
WHERE operation.state = 'unknown' ORDER BY below.no, step, item LIMIT 5;

-- name: pinned_runs
-- To which versions runs are pinned that a worker would take: how many, and the id of one of them.
SELECT workflow, workflow_version, count(*), min(id) FROM run
WHERE namespace = :namespace AND state IN ('ready', 'running', 'waiting', 'cancelling', 'compensating')
GROUP BY workflow, workflow_version ORDER BY workflow, workflow_version;

-- name: due_runs
-- Unowned runs whose time has come, the earliest first. One that keeps a place in line begins when it is the first,
-- and nobody who came later is at work; nothing but what settles an effect is done while one of another is unknown.
SELECT no, generation, state, takeovers, answers, resource FROM run
WHERE lease IS NULL AND wake_at IS NOT NULL AND queue IS NULL AND wake_at <= :now AND namespace = :namespace
AND (workflow, workflow_version) IN (
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(:workflows)
)
AND (
    resource IS NULL OR state NOT IN ('ready', 'compensating')
    OR EXISTS (SELECT 1 FROM operation WHERE operation.run = run.no AND operation.state = 'unknown')
    OR (
        (state <> 'ready' OR NOT EXISTS (
            SELECT 1 FROM run AS earlier
            WHERE earlier.namespace = run.namespace AND earlier.resource = run.resource AND earlier.resource IS NOT NULL
            AND (earlier.ended_at IS NULL OR earlier.state = 'terminated') AND earlier.no < run.no
            AND (earlier.ended_at IS NULL OR EXISTS (
                SELECT 1 FROM operation WHERE operation.run = earlier.no AND operation.state = 'unknown'
            ))
        ))
        AND NOT EXISTS (
            SELECT 1 FROM run AS other
            WHERE other.namespace = run.namespace AND other.resource = run.resource AND other.resource IS NOT NULL
            AND (other.ended_at IS NULL OR other.state = 'terminated') AND other.began_at IS NOT NULL
            AND other.no <> run.no AND (
                (run.state = 'ready' AND other.no > run.no AND other.ended_at IS NULL AND other.state <> 'ready')
                OR EXISTS (SELECT 1 FROM operation WHERE operation.run = other.no AND operation.state = 'unknown')
            )
        )
    )
)
ORDER BY wake_at LIMIT :limit;

-- name: orphaned_runs
-- Runs whose owner's lease is over, with their takeovers in a row: one that follows an expired lease counts, and one
-- before which something was answered begins anew. Those that were taken over least come first.
-- Steps from owner to owner in the index instead of reading every owned run.
WITH RECURSIVE owner (id) AS (
    SELECT min(lease) FROM run WHERE lease IS NOT NULL
    UNION ALL
    SELECT (SELECT min(lease) FROM run WHERE lease IS NOT NULL AND lease > owner.id)
    FROM owner WHERE owner.id IS NOT NULL
), orphan AS (
    SELECT run.no, run.generation, run.state, run.takeovers, run.answers, lease.state = 'expired' AS is_lost,
        (SELECT count(*) FROM step WHERE step.run = run.no AND step.state <> 'open')
        + (SELECT count(*) FROM operation WHERE operation.run = run.no AND first_outcome <> 'unresolved')
        + (SELECT count(*) FROM attempt WHERE attempt.run = run.no AND outcome <> 'unresolved')
        + (SELECT count(*) FROM observation WHERE observation.run = run.no AND kind = 'look-up') AS answered
    FROM owner JOIN lease ON lease.id = owner.id JOIN run ON run.lease = lease.id
    WHERE lease.state <> 'live' AND run.lease IS NOT NULL AND run.namespace = :namespace
    AND (run.workflow, run.workflow_version) IN (
        SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(:workflows)
    )
)
SELECT no, generation, state, iif(answers = answered, takeovers, 0) + is_lost AS in_a_row, answered
FROM orphan ORDER BY in_a_row LIMIT :limit;

-- name: ahead_of
-- Who is before a run in the line of a resource: the first that came earlier, or who has begun although it came later.
SELECT id, state FROM run
WHERE namespace = :namespace AND resource = :resource AND resource IS NOT NULL AND no <> :run
AND (ended_at IS NULL OR state = 'terminated') AND (
    (ended_at IS NULL AND (no < :run OR (began_at IS NOT NULL AND state <> 'ready')))
    OR EXISTS (SELECT 1 FROM operation WHERE operation.run = run.no AND operation.state = 'unknown')
)
ORDER BY no LIMIT 1;

-- name: claim_run
-- Take a run for a lease: its generation rises, so that whoever owned it before can change nothing any more.
UPDATE run SET
    state = CASE WHEN state IN ('ready', 'waiting') THEN 'running' ELSE state END,
    generation = generation + 1, version = version + 1, lease = :lease, wake_at = NULL, woken = 0, behind = NULL,
    changed_at = :now, takeovers = coalesce(:takeovers, takeovers), answers = coalesce(:answers, answers),
    began_at = CASE WHEN queue IS NOT NULL OR resource IS NOT NULL THEN coalesce(began_at, :now) END
WHERE no = :run AND generation = :generation AND state = :expected;

-- name: take_over_operations
-- What was being sent when the run changed hands may or may not have happened.
UPDATE operation SET
    state = 'unknown', generation = :generation, version = version + 1, changed_at = :now
WHERE run = :run AND state = 'dispatched' AND (SELECT generation FROM run WHERE no = :run) = :generation;

-- name: operation_states_of
-- Which states a run's operations are in: the fault points that its take-over passes.
SELECT DISTINCT state FROM operation WHERE run = :run ORDER BY state;

-- name: next_due_run
-- When the earliest unowned run falls due.
SELECT min(wake_at) FROM run
WHERE lease IS NULL AND wake_at IS NOT NULL AND queue IS NULL AND namespace = :namespace
AND (workflow, workflow_version) IN (
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(:workflows)
)
AND (
    resource IS NULL OR state NOT IN ('ready', 'compensating')
    OR EXISTS (SELECT 1 FROM operation WHERE operation.run = run.no AND operation.state = 'unknown')
    OR (
        (state <> 'ready' OR NOT EXISTS (
            SELECT 1 FROM run AS earlier
            WHERE earlier.namespace = run.namespace AND earlier.resource = run.resource AND earlier.resource IS NOT NULL
            AND (earlier.ended_at IS NULL OR earlier.state = 'terminated') AND earlier.no < run.no
            AND (earlier.ended_at IS NULL OR EXISTS (
                SELECT 1 FROM operation WHERE operation.run = earlier.no AND operation.state = 'unknown'
            ))
        ))
        AND NOT EXISTS (
            SELECT 1 FROM run AS other
            WHERE other.namespace = run.namespace AND other.resource = run.resource AND other.resource IS NOT NULL
            AND (other.ended_at IS NULL OR other.state = 'terminated') AND other.began_at IS NOT NULL
            AND other.no <> run.no AND (
                (run.state = 'ready' AND other.no > run.no AND other.ended_at IS NULL AND other.state <> 'ready')
                OR EXISTS (SELECT 1 FROM operation WHERE operation.run = other.no AND operation.state = 'unknown')
            )
        )
    )
);

-- name: next_due_lease
-- When the earliest lease that owns a run which this worker could take is over, or was.
WITH RECURSIVE owner (id) AS (
    SELECT min(lease) FROM run WHERE lease IS NOT NULL
    UNION ALL
    SELECT (SELECT min(lease) FROM run WHERE lease IS NOT NULL AND lease > owner.id)
    FROM owner WHERE owner.id IS NOT NULL
)
SELECT min(coalesce(lease.closed_at, lease.expires_at + max(lease.margin, :margin)))
FROM owner JOIN lease ON lease.id = owner.id
WHERE EXISTS (
    SELECT 1 FROM run WHERE run.lease = owner.id AND run.lease IS NOT NULL AND run.namespace = :namespace
    AND (run.workflow, run.workflow_version) IN (
        SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(:workflows)
    )
);

-- name: signalled_runs
-- Runs of a lease for whose open wait a signal is kept, of which a child has ended, or whose cancel request has no
-- recorded position yet.
SELECT no FROM run
WHERE lease = :lease AND (
    woken = 1 OR EXISTS (
        SELECT 1 FROM signal JOIN step ON step.run = signal.run AND step.name = signal.name
        WHERE signal.run = run.no AND signal.state = 'kept' AND step.kind = 'wait' AND step.state = 'open'
    )
    OR (cancel IS NOT NULL AND NOT EXISTS (SELECT 1 FROM step WHERE step.run = run.no AND step.kind = 'cancel'))
)
ORDER BY no;

-- name: latest_time
-- The highest time that is cheap to find: the newest row of each table that grows, and every lease's renewal.
SELECT max(
    coalesce((SELECT changed_at FROM operation ORDER BY rowid DESC LIMIT 1), 0),
    coalesce((SELECT seen_at FROM observation ORDER BY no DESC LIMIT 1), 0),
    coalesce((SELECT changed_at FROM run ORDER BY no DESC LIMIT 1), 0),
    coalesce((SELECT at FROM audit ORDER BY no DESC LIMIT 1), 0),
    coalesce((SELECT max(renewed_at) FROM lease), 0)
);
