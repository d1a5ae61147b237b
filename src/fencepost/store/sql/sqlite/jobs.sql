-- What comes from outside without a run's id: whose a callback's token is, when its job was heard of last, who waits
-- under a name.

-- name: callback_of
-- The operation that has handed out the token with this digest: `kind` is spelled out for the partial index.
SELECT run, step, item, evidence FROM observation
WHERE kind = 'callback' AND json_extract(evidence, '$.digest') = :digest ORDER BY no LIMIT 1;

-- name: beat
-- Give the open wait for a job its whole time once more, within what the wait has at most, and note what was said.
UPDATE step SET
    due_at = min(
        :now + json_extract(detail, '$.heartbeat'),
        coalesce(json_extract(detail, '$.until'), :now + json_extract(detail, '$.heartbeat'))
    ),
    beaten_at = :now,
    progress = coalesce(:progress, progress)
WHERE run = :run AND kind = 'wait' AND name = :name AND state = 'open'
AND json_extract(detail, '$.heartbeat') IS NOT NULL;

-- name: count_stranger
-- Count a token that nobody has given out: one row for all of them, so that a guesser fills no table.
INSERT INTO meta (name, value) VALUES (:name, '1')
ON CONFLICT (name) DO UPDATE SET value = CAST(CAST(value AS INTEGER) + 1 AS TEXT);

-- name: strangers
-- How many tokens came that nobody has given out.
SELECT value FROM meta WHERE name = :name;

-- name: waits_named
-- The runs that have waited under this name, those that still do first, then the latest ones: `kind` is spelled out for
-- the partial index.
SELECT run.id, step.state = 'open' AND run.ended_at IS NULL FROM step JOIN run ON run.no = step.run
WHERE step.kind = 'wait' AND step.name = :name AND run.namespace = :namespace
ORDER BY 2 DESC, run.no DESC LIMIT :limit;
