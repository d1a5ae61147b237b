-- One verb on many runs, as a job: its runs, and what became of each.

-- name: add_bulk
-- Insert a job, unless the same one is open already.
INSERT INTO fencepost.bulk (namespace, verb, arguments, digest, actor, reason, started_at)
VALUES (:namespace, :verb, :arguments, :digest, :actor, :reason, :started_at)
ON CONFLICT (namespace, digest) WHERE state <> 'done' DO NOTHING;

-- name: add_bulk_runs
-- Insert the runs of a job, in their order: a JSON list of [run, version seen, state seen].
INSERT INTO fencepost.bulk_run (bulk, place, run, seen, was)
SELECT :bulk::bigint, place - 1, (value ->> 0)::bigint, (value ->> 1)::bigint, value ->> 2
FROM jsonb_array_elements(:runs::jsonb) WITH ORDINALITY AS asked (value, place);

-- name: open_bulk
-- The open job with this digest.
SELECT bulk.no, bulk.namespace, verb, arguments, digest, actor, reason, started_at, state, bulk.closed_at,
    (SELECT count(*) FROM fencepost.bulk_run AS one WHERE one.bulk = bulk.no),
    (SELECT count(*) FROM fencepost.bulk_run AS one WHERE one.bulk = bulk.no AND outcome = 'done'),
    (SELECT count(*) FROM fencepost.bulk_run AS one WHERE one.bulk = bulk.no AND outcome = 'refused')
FROM fencepost.bulk WHERE namespace = :namespace AND digest = :digest AND state <> 'done';

-- name: find_bulk
-- The job of a namespace with this number.
SELECT bulk.no, bulk.namespace, verb, arguments, digest, actor, reason, started_at, state, bulk.closed_at,
    (SELECT count(*) FROM fencepost.bulk_run AS one WHERE one.bulk = bulk.no),
    (SELECT count(*) FROM fencepost.bulk_run AS one WHERE one.bulk = bulk.no AND outcome = 'done'),
    (SELECT count(*) FROM fencepost.bulk_run AS one WHERE one.bulk = bulk.no AND outcome = 'refused')
FROM fencepost.bulk WHERE namespace = :namespace AND no = :no;

-- name: list_bulks
-- A page of a namespace's jobs, newest first: all of them, or those that are open.
SELECT bulk.no, bulk.namespace, verb, arguments, digest, actor, reason, started_at, state, bulk.closed_at,
    (SELECT count(*) FROM fencepost.bulk_run AS one WHERE one.bulk = bulk.no),
    (SELECT count(*) FROM fencepost.bulk_run AS one WHERE one.bulk = bulk.no AND outcome = 'done'),
    (SELECT count(*) FROM fencepost.bulk_run AS one WHERE one.bulk = bulk.no AND outcome = 'refused')
FROM fencepost.bulk WHERE namespace = :namespace AND (:every::bigint = 1 OR state <> 'done')
ORDER BY no DESC LIMIT :limit::bigint;

-- name: runs_of_bulk
-- The runs of a job from a place on, in their order: all of them, or those to which nothing was done yet.
SELECT place, seen, was, outcome, says, no, namespace, id, workflow, workflow_version, input, fingerprint, state, generation, version, created_at,
    changed_at, principal, lease, wake_at, parent, result, error, hold, cancel, delivered, ended_at,
    takeovers, resource, parent_step, turn, behind, queue, queue_key, priority
FROM fencepost.bulk_run JOIN fencepost.run ON run.no = bulk_run.run
WHERE bulk = :bulk AND place > :after::bigint AND (:every::bigint = 1 OR outcome IS NULL)
ORDER BY place LIMIT :limit::bigint;

-- name: hold_bulk
-- Keep a job from being paused until the end; nothing if it is paused already, or done.
UPDATE fencepost.bulk SET version = version + 1 WHERE no = :bulk AND state = 'running';

-- name: tick
-- Note what became of a run of a job, unless that is known.
UPDATE fencepost.bulk_run SET outcome = :outcome, says = :says, closed_at = :now
WHERE bulk = :bulk AND run = :run AND outcome IS NULL;

-- name: move_bulk
-- Lead a job from one state to the next.
UPDATE fencepost.bulk SET state = :to, version = version + 1 WHERE no = :bulk AND state = :expected;

-- name: finish_bulk
-- End a job of which nothing is left.
UPDATE fencepost.bulk SET state = 'done', closed_at = :now, version = version + 1
WHERE no = :bulk AND state = 'running' AND NOT EXISTS (
    SELECT 1 FROM fencepost.bulk_run AS one WHERE one.bulk = bulk.no AND outcome IS NULL
);
