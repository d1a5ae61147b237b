-- Runs that have ended and whose time is over: what they hold is removed, their rows and ids stay.

-- name: purgeable_runs
-- The next runs, by number, that ended in this state before a time and that nothing needs any more: every operation of
-- every turn is known, agrees with itself and is not half compensated, every refused signal is audited, nobody below is
-- still alive, and whoever started it was purged before.
SELECT run.no, run.id FROM run
WHERE run.namespace = :namespace AND run.state = :state AND run.ended_at < :before AND run.purged_at IS NULL
AND run.no > :after
AND (run.parent IS NULL OR EXISTS (
    SELECT 1 FROM run AS above WHERE above.no = run.parent AND above.purged_at IS NOT NULL
))
AND NOT EXISTS (
    SELECT 1 FROM run AS turn JOIN operation ON operation.run = turn.no
    WHERE turn.namespace = run.namespace AND turn.id = run.id AND (
        operation.state IN ('reserved', 'dispatched', 'unknown') OR operation.conflict = 1
        OR (operation.compensates IS NOT NULL AND operation.state <> 'succeeded')
    )
)
AND NOT EXISTS (
    SELECT 1 FROM run AS turn JOIN observation AS seen ON seen.run = turn.no
    JOIN operation ON operation.run = seen.run AND operation.step = seen.step AND operation.item = seen.item
    LEFT JOIN attempt ON attempt.run = seen.run AND attempt.step = seen.step AND attempt.item = seen.item
        AND attempt.number = seen.attempt
    WHERE turn.namespace = run.namespace AND turn.id = run.id AND seen.kind = 'reply'
    AND seen.says IN ('applied', 'not applied')
    AND coalesce(attempt.outcome, CASE WHEN seen.attempt = 1 THEN operation.first_outcome END)
        IN ('applied', 'not applied')
    AND coalesce(attempt.outcome, operation.first_outcome) <> seen.says
    AND NOT EXISTS (
        SELECT 1 FROM observation AS later WHERE later.run = seen.run AND later.step = seen.step
        AND later.item = seen.item AND later.kind = 'conflict settled' AND later.no > seen.no
    )
)
AND NOT EXISTS (
    SELECT 1 FROM run AS turn JOIN signal ON signal.run = turn.no
    WHERE turn.namespace = run.namespace AND turn.id = run.id AND signal.audited = 0
)
AND NOT EXISTS (
    WITH RECURSIVE below (no, ended_at) AS (
        SELECT child.no, child.ended_at FROM run AS turn JOIN run AS child ON child.parent = turn.no
        WHERE turn.namespace = run.namespace AND turn.id = run.id
        UNION ALL
        SELECT child.no, child.ended_at FROM below JOIN run AS child ON child.parent = below.no
    )
    SELECT 1 FROM below WHERE below.ended_at IS NULL
)
ORDER BY run.no LIMIT :limit;

-- name: ended_runs
-- How many runs ended in this state before a time and were not purged.
SELECT count(*) FROM run
WHERE namespace = :namespace AND state = :state AND ended_at < :before AND purged_at IS NULL;

-- name: purge_run
-- Empty the rows of a run's turns, and note when: the id stays taken, and what is below may be removed.
UPDATE run SET
    purged_at = :now, input = :mark, version = version + 1,
    result = CASE WHEN result IS NOT NULL THEN :mark END,
    error = CASE WHEN error IS NOT NULL THEN :mark END,
    cancel = CASE WHEN cancel IS NOT NULL THEN :mark END
WHERE namespace = :namespace AND id = :id AND ended_at IS NOT NULL AND purged_at IS NULL;

-- name: purge_proposal
-- Empty what was proposed to be done to it.
UPDATE proposal SET arguments = :mark
WHERE run IN (SELECT no FROM run WHERE namespace = :namespace AND id = :id);

-- name: purge_bulk_run
-- Empty what was said of it where it was refused among many.
UPDATE bulk_run SET says = :mark
WHERE says IS NOT NULL AND run IN (SELECT no FROM run WHERE namespace = :namespace AND id = :id);

-- name: purge_observation
-- Remove what was seen of its operations.
DELETE FROM observation WHERE run IN (SELECT no FROM run WHERE namespace = :namespace AND id = :id);

-- name: purge_attempt
-- Remove its later attempts.
DELETE FROM attempt WHERE run IN (SELECT no FROM run WHERE namespace = :namespace AND id = :id);

-- name: purge_operation
-- Remove its operations.
DELETE FROM operation WHERE run IN (SELECT no FROM run WHERE namespace = :namespace AND id = :id);

-- name: purge_step
-- Remove its other steps.
DELETE FROM step WHERE run IN (SELECT no FROM run WHERE namespace = :namespace AND id = :id);

-- name: purge_signal
-- Remove its signals.
DELETE FROM signal WHERE run IN (SELECT no FROM run WHERE namespace = :namespace AND id = :id);

-- name: purge_piece
-- Remove its values that were kept apart.
DELETE FROM piece WHERE namespace = :namespace AND run_id = :id;
