-- What comes from outside without a run's id: whose a callback's token is, when its job was heard of last, who waits
-- under a name.

-- name: callback_of
-- The operation that has handed out the token with this digest: `kind` is spelled out for the partial index.
SELECT run, step, item, evidence FROM fencepost.observation
WHERE kind = 'callback' AND (evidence::json ->> 'digest') = :digest ORDER BY no LIMIT 1;

-- name: beat
-- Give the open wait for a job its whole time once more, within what the wait has at most, and note what was said; its
-- run is locked before.
UPDATE fencepost.step SET
    due_at = least(
        :now::bigint + (detail::json ->> 'heartbeat')::bigint,
        (detail::json ->> 'until')::bigint
    ),
    beaten_at = :now,
    progress = coalesce(:progress::text, progress)
WHERE run = :run AND kind = 'wait' AND name = :name AND state = 'open'
AND (detail::json ->> 'heartbeat') IS NOT NULL;

-- name: count_stranger
-- Count a token that nobody has given out: one row for all of them, so that a guesser fills no table.
INSERT INTO fencepost.meta (name, value) VALUES (:name, '1')
ON CONFLICT (name) DO UPDATE SET value = (meta.value::bigint + 1)::text;

-- name: strangers
-- How many tokens came that nobody has given out.
SELECT value FROM fencepost.meta WHERE name = :name;

-- name: waits_named
-- The runs that have waited under this name, those that still do first, then the latest ones: `kind` is spelled out for
-- the partial index.
SELECT run.id, step.state = 'open' AND run.ended_at IS NULL FROM fencepost.step JOIN fencepost.run ON run.no = step.run
WHERE step.kind = 'wait' AND step.name = :name AND run.namespace = :namespace
ORDER BY 2 DESC, run.no DESC LIMIT :limit;
