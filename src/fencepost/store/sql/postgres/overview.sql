-- What a person looks at first. Each answer is bounded, by `:most` rows read or `:limit` rows shown.

-- name: unknown_effects
-- Effects of which nobody knows whether they happened, the oldest first, in runs that can hold one.
SELECT run.id, run.state, step, item, reference, first_dispatched_at, lookups
FROM fencepost.run JOIN fencepost.operation ON operation.run = run.no
WHERE run.namespace = :namespace
AND run.state IN ('ready', 'running', 'waiting', 'held', 'cancelling', 'compensating', 'terminated')
AND operation.state = 'unknown'
ORDER BY first_dispatched_at LIMIT :limit;

-- name: held_by_reason
-- Held runs by reason, most of them first: how many, since when the first of them, and its id.
SELECT reason, count(*), min(changed_at), (array_agg(id ORDER BY changed_at))[1] FROM (
    SELECT hold::json ->> 'reason' AS reason, changed_at, id FROM fencepost.run
    WHERE namespace = :namespace AND state = 'held' LIMIT :most
) AS held GROUP BY reason ORDER BY 2 DESC, 1;

-- name: count_in_state
-- How many runs are in a state, counted no further than that.
SELECT count(*) FROM (SELECT 1 FROM fencepost.run WHERE namespace = :namespace AND state = :state LIMIT :most) AS counted;
