-- Messages to runs.

-- name: keep_signal
-- Insert a signal unless its id exists. Only this statement can know in time whether anybody may still take it.
INSERT INTO signal (run, id, name, payload, fingerprint, sender, state, reason, position, sent_at, closed_at)
SELECT asked.no, :id, :name, :payload, :fingerprint, :sender,
    CASE WHEN asked.refusal IS NULL THEN :state ELSE 'refused' END,
    coalesce(asked.refusal, :reason),
    :position, :sent_at,
    CASE WHEN asked.refusal IS NULL THEN :closed_at ELSE :now END
FROM (
    SELECT run.no, CASE
        WHEN run.ended_at IS NOT NULL THEN :run_ended
        WHEN EXISTS (
            SELECT 1 FROM step
            WHERE step.run = run.no AND step.kind = 'wait' AND step.name = :name AND step.state <> 'open'
            AND NOT coalesce(json_extract(detail, '$.many'), 0)
        ) AND NOT EXISTS (
            SELECT 1 FROM step
            WHERE step.run = run.no AND step.kind = 'wait' AND step.name = :name AND step.state = 'open'
        ) THEN :not_waiting
    END AS refusal
    FROM run WHERE run.no = :run AND run.state <> 'continued'
) AS asked
WHERE true
ON CONFLICT (run, id) DO NOTHING
RETURNING id;

-- name: keep_signal_at_once
-- Insert a signal for a run in its first turn, unless its id exists, or there is more to say: it may be refused, or an
-- open wait of its name takes something else than what it is (NULL: it is known to fit).
INSERT INTO signal (run, id, name, payload, fingerprint, sender, state, sent_at)
SELECT run.no, :id, :name, :payload, :fingerprint, :sender, 'kept', :sent_at
FROM run
WHERE run.namespace = :namespace AND run.id = :run_id AND run.turn = 0 AND run.state <> 'continued'
AND run.ended_at IS NULL
AND NOT EXISTS (
    SELECT 1 FROM step
    WHERE step.run = run.no AND step.kind = 'wait' AND step.name = :name AND step.state = 'open' AND :takes IS NOT NULL
    AND (json_extract(detail, '$.takes') IS NOT :takes OR json_extract(detail, '$.job') IS NOT NULL
        OR json_extract(detail, '$.allows') IS NOT NULL)
)
AND (
    NOT EXISTS (
        SELECT 1 FROM step
        WHERE step.run = run.no AND step.kind = 'wait' AND step.name = :name AND step.state <> 'open'
        AND NOT coalesce(json_extract(detail, '$.many'), 0)
    )
    OR EXISTS (
        SELECT 1 FROM step
        WHERE step.run = run.no AND step.kind = 'wait' AND step.name = :name AND step.state = 'open'
    )
)
ON CONFLICT (run, id) DO NOTHING;

-- name: find_signal
-- The signal of a run's last turn with this id.
SELECT id, name, payload, state, sent_at, sender, fingerprint, reason, position, closed_at
FROM signal
WHERE run = (SELECT no FROM run WHERE namespace = :namespace AND id = :run_id AND state <> 'continued')
AND id = :id;

-- name: waits_open_for
-- The open waits of a run's last turn that a signal of this name may be for, in the order in which they were opened.
SELECT position, kind, step.name, step.fingerprint, step.state, opened_at, step.version, request, detail, step.result,
    step.error, step.delivered, due_at, closed_at
FROM run JOIN step ON step.run = run.no
WHERE run.namespace = :namespace AND run.id = :run_id AND run.state <> 'continued'
AND step.name = :name AND step.kind = 'wait' AND step.state = 'open' ORDER BY step.rowid;

-- name: signals_beside
-- The signals of a run's last turn that have this name or this id, in the order in which they came.
SELECT signal.id, signal.name, payload, signal.state, sent_at, sender, signal.fingerprint, reason, position, closed_at
FROM run JOIN signal ON signal.run = run.no
WHERE run.namespace = :namespace AND run.id = :run_id AND run.state <> 'continued'
AND (signal.name = :name OR signal.id = :id) ORDER BY signal.rowid;

-- name: earlier_signal
-- The signal with this id that an earlier turn of the run has applied or refused.
SELECT signal.id, signal.name, payload, signal.state, sent_at, sender, signal.fingerprint, reason, position, closed_at
FROM run JOIN signal ON signal.run = run.no
WHERE run.namespace = :namespace AND run.id = :run_id AND run.turn < :turn AND signal.id = :id LIMIT 1;

-- name: wake_run
-- Let a run that waits be claimed now, for a signal that is kept.
UPDATE run SET wake_at = :now, version = version + 1, changed_at = :now
WHERE namespace = :namespace AND run.id = :run_id AND state IN ('waiting', 'cancelling', 'compensating') AND lease IS NULL
AND coalesce(wake_at > :now, true)
AND EXISTS (SELECT 1 FROM signal WHERE signal.run = run.no AND signal.id = :id AND signal.state = 'kept');

-- name: woken_run
-- A run that a signal has made due, if it is still as the sender has left it, and may be claimed for this lease.
SELECT no FROM run
WHERE no = :run AND generation = :generation AND state = :expected AND lease IS NULL AND queue IS NULL AND resource IS NULL
AND wake_at <= :now AND namespace = :namespace
AND (workflow, workflow_version) IN (
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(:workflows)
)
AND EXISTS (SELECT 1 FROM lease WHERE id = :lease AND state = 'live');

-- name: unaudited_signals
-- Signals that their runs' ends have refused and of which the audit has no row yet; so many at most.
SELECT run, id, name, payload, state, sent_at, sender, fingerprint, reason, position, closed_at
FROM signal WHERE audited = 0 LIMIT :limit;

-- name: note_audited
-- The audit has a row of this signal's refusal.
UPDATE signal SET audited = 1 WHERE run = :run AND id = :id AND audited = 0;
