-- Queues: declared by code, counted from the rows of runs, paused by people. A slot is a run that somebody owns.

-- name: declare_queue
-- Write a queue's limits as the code has them now; whoever declares last is right.
INSERT INTO queue (namespace, name, concurrency, per_key, rate, rate_within)
VALUES (:namespace, :name, :concurrency, :per_key, :rate, :rate_within)
ON CONFLICT (namespace, name) DO UPDATE SET
    concurrency = excluded.concurrency, per_key = excluded.per_key, rate = excluded.rate,
    rate_within = excluded.rate_within, version = queue.version + 1
WHERE queue.concurrency IS NOT excluded.concurrency OR queue.per_key IS NOT excluded.per_key
OR queue.rate IS NOT excluded.rate OR queue.rate_within IS NOT excluded.rate_within;

-- name: all_queues
-- Every queue: its limits, how many of its slots are taken, how many of its runs began within its rate's time, when the
-- first of those did, and whether one waits that is compensated.
SELECT name, concurrency, per_key, rate, rate_within, paused_at, paused_by, paused_because, version,
    (
        SELECT count(*) FROM run AS held
        WHERE held.namespace = queue.namespace AND held.queue = queue.name AND held.queue IS NOT NULL
        AND held.lease IS NOT NULL
    ),
    (
        SELECT count(*) FROM run AS begun
        WHERE begun.namespace = queue.namespace AND begun.queue = queue.name AND begun.began_at IS NOT NULL
        AND begun.began_at > :now - queue.rate_within AND begun.state <> 'continued'
    ),
    (
        SELECT min(began_at) FROM run AS begun
        WHERE begun.namespace = queue.namespace AND begun.queue = queue.name AND begun.began_at IS NOT NULL
        AND begun.began_at > :now - queue.rate_within AND begun.state <> 'continued'
    ),
    EXISTS (
        SELECT 1 FROM run AS back
        WHERE back.namespace = queue.namespace AND back.queue = queue.name AND back.queue IS NOT NULL
        AND back.lease IS NULL AND back.wake_at IS NOT NULL AND back.state = 'compensating'
    )
FROM queue WHERE namespace = :namespace ORDER BY name;

-- name: hold_queues
-- Let nobody else claim from these queues until the end; those from which somebody claims just now are left to them.
SELECT name FROM queue WHERE namespace = :namespace;

-- name: due_in_queue
-- Runs of a queue whose time has come, by priority and time: how many others of their keys are in work, and whether they
-- have not begun yet. Not those for whose key there is no slot; what a person has stopped needs none, and what goes back
-- waits for a slot alone.
SELECT no, generation, state, takeovers, answers, queue_key, began_at IS NULL,
    (
        SELECT count(*) FROM run AS held
        WHERE held.namespace = run.namespace AND held.queue = run.queue AND held.queue_key = run.queue_key
        AND held.queue IS NOT NULL AND held.lease IS NOT NULL
    )
FROM run
WHERE namespace = :namespace AND queue = :queue AND queue IS NOT NULL AND lease IS NULL AND wake_at IS NOT NULL
AND wake_at <= :now AND (workflow, workflow_version) IN (
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(:workflows)
)
AND (
    state = 'cancelling'
    OR (
        CASE WHEN state = 'compensating' THEN :slots = 1
            ELSE :begins = 1 AND (:fresh = 1 OR began_at IS NOT NULL) END
        AND (:per_key IS NULL OR queue_key IS NULL OR :per_key > (
            SELECT count(*) FROM run AS held
            WHERE held.namespace = run.namespace AND held.queue = run.queue AND held.queue_key = run.queue_key
            AND held.queue IS NOT NULL AND held.lease IS NOT NULL
        ))
    )
)
ORDER BY priority DESC, wake_at, no LIMIT :limit;

-- name: next_in_queue
-- When the earliest run of a queue falls due for which there may be a slot.
SELECT min(wake_at) FROM run
WHERE namespace = :namespace AND queue = :queue AND queue IS NOT NULL AND lease IS NULL AND wake_at IS NOT NULL
AND (workflow, workflow_version) IN (
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(:workflows)
)
AND (
    state = 'cancelling'
    OR (
        CASE WHEN state = 'compensating' THEN :slots = 1
            ELSE :begins = 1 AND (:fresh = 1 OR began_at IS NOT NULL) END
        AND (:per_key IS NULL OR queue_key IS NULL OR :per_key > (
            SELECT count(*) FROM run AS held
            WHERE held.namespace = run.namespace AND held.queue = run.queue AND held.queue_key = run.queue_key
            AND held.queue IS NOT NULL AND held.lease IS NOT NULL
        ))
    )
);

-- name: queue_lengths
-- How many runs of each queue wait for their turn, and how many for something else.
SELECT queue, count(CASE WHEN wake_at <= :now THEN 1 END), count(CASE WHEN wake_at IS NULL OR wake_at > :now THEN 1 END)
FROM run
WHERE namespace = :namespace AND queue IS NOT NULL AND lease IS NULL AND ended_at IS NULL GROUP BY queue;

-- name: find_duplicate
-- The run that stands for the same in its queue: the one that goes on, or else the last one.
SELECT no, namespace, id, workflow, workflow_version, input, fingerprint, state, generation, version, created_at,
    changed_at, principal, lease, wake_at, parent, result, error, hold, cancel, delivered, ended_at,
    takeovers, resource, parent_step, turn, behind, queue, queue_key, priority
FROM run WHERE namespace = :namespace AND queue = :queue AND dedup = :dedup AND dedup IS NOT NULL
ORDER BY ended_at IS NULL AND gives_way = 0 DESC, no DESC LIMIT 1;

-- name: rival_of
-- The run that stands for the same in its queue, while this one has ended and would go on beside it.
SELECT other.id, other.state FROM run JOIN run AS other
    ON other.namespace = run.namespace AND other.queue = run.queue AND other.dedup = run.dedup
WHERE run.no = :run AND run.dedup IS NOT NULL AND run.gives_way = 0 AND run.ended_at IS NOT NULL
AND other.dedup IS NOT NULL AND other.ended_at IS NULL AND other.gives_way = 0;

-- name: pause_queue
-- Let no run of a queue begin or go on, unless it is paused already.
UPDATE queue SET paused_at = :now, paused_by = :actor, paused_because = :reason, version = version + 1
WHERE namespace = :namespace AND name = :name AND paused_at IS NULL;

-- name: resume_queue
-- Let the runs of a queue go on, if it is paused.
UPDATE queue SET paused_at = NULL, paused_by = NULL, paused_because = NULL, version = version + 1
WHERE namespace = :namespace AND name = :name AND paused_at IS NOT NULL;
