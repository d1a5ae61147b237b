-- What charts are made of: the newest runs of the ledger, and what they sent. The number of runs bounds what is read of
-- runs, and a limit what is read of the rest, however many steps a run has.

-- name: runs_lately
-- When the newest runs began and ended, and how.
SELECT created_at, ended_at, state
FROM (
    SELECT namespace, created_at, ended_at, state FROM fencepost.run
    WHERE no > (SELECT max(no) FROM fencepost.run) - :runs::bigint ORDER BY no DESC LIMIT :limit::bigint
) AS newest
WHERE namespace = :namespace;

-- name: first_attempts_lately
-- The first attempts of the newest runs' effects, those of the newest run first, in the order of its steps' names.
SELECT effect, 1, first_dispatched_at, first_settled_at, first_outcome, sent.state, sent.changed_at
FROM (
    SELECT run, effect, first_dispatched_at, first_settled_at, first_outcome, state, changed_at FROM fencepost.operation
    WHERE run > (SELECT max(no) FROM fencepost.run) - :runs::bigint
    ORDER BY run DESC, step DESC, item DESC LIMIT :limit::bigint
) AS sent JOIN fencepost.run ON run.no = sent.run
WHERE namespace = :namespace AND first_dispatched_at IS NOT NULL;

-- name: further_attempts_lately
-- The attempts after the first ones, alike.
SELECT effect, number, dispatched_at, settled_at, outcome, operation.state, operation.changed_at
FROM (
    SELECT run, step, item, number, dispatched_at, settled_at, outcome FROM fencepost.attempt
    WHERE run > (SELECT max(no) FROM fencepost.run) - :runs::bigint
    ORDER BY run DESC, step DESC, item DESC, number DESC LIMIT :limit::bigint
) AS sent JOIN fencepost.run ON run.no = sent.run
JOIN fencepost.operation
    ON operation.run = sent.run AND operation.step = sent.step AND operation.item = sent.item
WHERE namespace = :namespace;
