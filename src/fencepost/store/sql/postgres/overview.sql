-- What a person looks at first. Each answer is bounded, by `:most` rows read or `:limit` rows shown.

-- name: unknown_effects
-- Effects of which nobody knows whether they happened, the oldest first, in runs that can hold one.
SELECT run.id, run.state, step, item, reference, first_dispatched_at, lookups
FROM fencepost.operation JOIN fencepost.run ON run.no = operation.run
WHERE unknown_since IS NOT NULL AND run.namespace = :namespace
AND run.state IN ('ready', 'running', 'waiting', 'held', 'cancelling', 'compensating', 'terminated')
ORDER BY unknown_since LIMIT :limit;

-- name: held_by_reason
-- Held runs by reason, most of them first: how many, since when the first of them, and its id.
SELECT reason, count(*), min(changed_at), (array_agg(id ORDER BY changed_at))[1] FROM (
    SELECT hold::json ->> 'reason' AS reason, changed_at, id FROM fencepost.run
    WHERE namespace = :namespace AND state = 'held' LIMIT :most
) AS held GROUP BY reason ORDER BY 2 DESC, 1;

-- name: failed_by_error
-- Failed runs by the class of their error, most of them first, among the newest: how many, and the newest of them.
SELECT error, count(*), max(changed_at), (array_agg(id ORDER BY changed_at DESC))[1] FROM (
    SELECT substring(error FROM '"class": ?"([^"]*)"') AS error, changed_at, id, no FROM fencepost.run
    WHERE namespace = :namespace AND state = 'failed' ORDER BY no DESC LIMIT :most
) AS failed GROUP BY error ORDER BY 2 DESC, 1;

-- name: count_in_states
-- How many runs are in each of these states, counted no further than that.
SELECT wanted.value, (
    SELECT count(*) FROM (
        SELECT 1 FROM fencepost.run WHERE namespace = :namespace AND run.state = wanted.value LIMIT :most
    ) AS counted
) FROM json_array_elements_text(:states::json) AS wanted (value);

-- name: search_runs
-- Runs that fit, newest first, among the next so many of them: a search that finds little ends all the same.
SELECT run.no, namespace, id, workflow, workflow_version, input, run.fingerprint, run.state, run.generation, run.version,
    created_at, run.changed_at, principal, lease, wake_at, parent, run.result, run.error, hold, cancel, run.delivered,
    ended_at, takeovers, resource, parent_step, turn, behind, queue, queue_key, priority
FROM (
    SELECT * FROM fencepost.run
    WHERE namespace = :namespace AND no < :after AND state <> 'continued' ORDER BY no DESC LIMIT :most
) AS run
WHERE (:workflow::text IS NULL OR workflow = :workflow)
AND (:prefix::text IS NULL OR substr(id, 1, length(:prefix)) = :prefix)
AND (:since::bigint IS NULL OR created_at >= :since) AND (:until::bigint IS NULL OR created_at < :until)
AND (:held_for::text IS NULL OR hold::json ->> 'reason' = :held_for)
AND (:error::text IS NULL OR strpos(coalesce(run.error, ''), :error) > 0 OR strpos(coalesce(hold, ''), :error) > 0)
AND (:step::text IS NULL
    OR EXISTS (SELECT 1 FROM fencepost.operation WHERE operation.run = run.no AND operation.step = :step)
    OR EXISTS (SELECT 1 FROM fencepost.step WHERE step.run = run.no AND step.name = :step))
AND (:retrying::bigint = 0 OR (
    run.state IN ('ready', 'running', 'waiting', 'cancelling', 'compensating') AND (
        EXISTS (
            SELECT 1 FROM fencepost.operation WHERE operation.run = run.no AND (
                (operation.state = 'reserved' AND attempts >= 1) OR (operation.state = 'dispatched' AND attempts >= 2)
                OR (operation.state = 'unknown' AND (lookups >= 1 OR attempts >= 2))
            )
        )
        OR EXISTS (
            SELECT 1 FROM fencepost.step WHERE step.run = run.no AND step.state = 'open' AND kind IN ('read', 'model')
            AND due_at IS NOT NULL
        )
    )
))
ORDER BY run.no DESC LIMIT :limit;

-- name: search_runs_in_state
-- The same among the runs in one state. They are named as a stretch of the index by state, so that no other is taken:
-- how many runs a state has is not known when this is planned.
SELECT run.no, namespace, id, workflow, workflow_version, input, run.fingerprint, run.state, run.generation, run.version,
    created_at, run.changed_at, principal, lease, wake_at, parent, run.result, run.error, hold, cancel, run.delivered,
    ended_at, takeovers, resource, parent_step, turn, behind, queue, queue_key, priority
FROM (
    SELECT * FROM fencepost.run
    WHERE namespace = :namespace AND (state, no) < (:state, :after) AND state >= :state
    ORDER BY state DESC, no DESC LIMIT :most
) AS run
WHERE (:workflow::text IS NULL OR workflow = :workflow)
AND (:prefix::text IS NULL OR substr(id, 1, length(:prefix)) = :prefix)
AND (:since::bigint IS NULL OR created_at >= :since) AND (:until::bigint IS NULL OR created_at < :until)
AND (:held_for::text IS NULL OR hold::json ->> 'reason' = :held_for)
AND (:error::text IS NULL OR strpos(coalesce(run.error, ''), :error) > 0 OR strpos(coalesce(hold, ''), :error) > 0)
AND (:step::text IS NULL
    OR EXISTS (SELECT 1 FROM fencepost.operation WHERE operation.run = run.no AND operation.step = :step)
    OR EXISTS (SELECT 1 FROM fencepost.step WHERE step.run = run.no AND step.name = :step))
AND (:retrying::bigint = 0 OR (
    run.state IN ('ready', 'running', 'waiting', 'cancelling', 'compensating') AND (
        EXISTS (
            SELECT 1 FROM fencepost.operation WHERE operation.run = run.no AND (
                (operation.state = 'reserved' AND attempts >= 1) OR (operation.state = 'dispatched' AND attempts >= 2)
                OR (operation.state = 'unknown' AND (lookups >= 1 OR attempts >= 2))
            )
        )
        OR EXISTS (
            SELECT 1 FROM fencepost.step WHERE step.run = run.no AND step.state = 'open' AND kind IN ('read', 'model')
            AND due_at IS NOT NULL
        )
    )
))
ORDER BY run.state DESC, run.no DESC LIMIT :limit;

-- name: searched_down_to
-- The last of the runs among which was searched, and how many they were.
SELECT min(no), count(*) FROM (
    SELECT no FROM fencepost.run
    WHERE namespace = :namespace AND no < :after AND state <> 'continued' ORDER BY no DESC LIMIT :most
) AS looked_at;

-- name: searched_down_to_in_state
-- The same among the runs in one state.
SELECT min(no), count(*) FROM (
    SELECT no FROM fencepost.run
    WHERE namespace = :namespace AND (state, no) < (:state, :after) AND state >= :state
    ORDER BY state DESC, no DESC LIMIT :most
) AS looked_at;

-- name: runs_with_key
-- Runs with an effect whose key begins so, among the next so many of whatever namespace.
SELECT DISTINCT run.no, namespace, id, workflow, workflow_version, input, run.fingerprint, run.state, run.generation, run.version,
    created_at, run.changed_at, principal, lease, wake_at, parent, run.result, run.error, hold, cancel, run.delivered,
    ended_at, takeovers, resource, parent_step, turn, behind, queue, queue_key, priority
FROM (
    SELECT operation.run AS found FROM fencepost.operation
    WHERE key >= :key AND key < :key || '~' ORDER BY key LIMIT :most
) AS looked_at JOIN fencepost.run ON run.no = found
WHERE namespace = :namespace ORDER BY run.no DESC LIMIT :limit;

-- name: runs_with_reference
-- Runs with an effect whose remote object has this id.
SELECT DISTINCT run.no, namespace, id, workflow, workflow_version, input, run.fingerprint, run.state, run.generation, run.version,
    created_at, run.changed_at, principal, lease, wake_at, parent, run.result, run.error, hold, cancel, run.delivered,
    ended_at, takeovers, resource, parent_step, turn, behind, queue, queue_key, priority
FROM fencepost.operation JOIN fencepost.run ON run.no = operation.run
WHERE reference = :reference AND namespace = :namespace ORDER BY run.no DESC LIMIT :limit;
