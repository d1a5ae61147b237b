-- Messages to runs.

-- name: keep_signal
-- Insert a signal unless its id exists. Only this statement can know in time whether anybody may still take it; the run
-- is locked before.
INSERT INTO fencepost.signal (run, id, name, payload, fingerprint, sender, state, reason, position, sent_at, closed_at)
SELECT asked.no, :id, :name, :payload, :fingerprint, :sender,
    CASE WHEN asked.refusal IS NULL THEN :state ELSE 'refused' END,
    coalesce(asked.refusal, :reason),
    :position, :sent_at,
    CASE WHEN asked.refusal IS NULL THEN :closed_at::bigint ELSE :now::bigint END
FROM (
    SELECT run.no, CASE
        WHEN run.ended_at IS NOT NULL THEN :run_ended
        WHEN EXISTS (
            SELECT 1 FROM fencepost.step
            WHERE step.run = run.no AND step.kind = 'wait' AND step.name = :name AND step.state <> 'open'
            AND NOT coalesce((step.detail::json ->> 'many')::boolean, false)
        ) AND NOT EXISTS (
            SELECT 1 FROM fencepost.step
            WHERE step.run = run.no AND step.kind = 'wait' AND step.name = :name AND step.state = 'open'
        ) THEN :not_waiting
    END AS refusal
    FROM fencepost.run WHERE run.no = :run AND run.state <> 'continued'
) AS asked
ON CONFLICT (run, id) DO NOTHING
RETURNING id;

-- name: keep_signal_at_once
-- Insert a signal for a run in its first turn, unless its id exists, or there is more to say: it may be refused, or an
-- open wait of its name takes something else than what it is (NULL: it is known to fit).
INSERT INTO fencepost.signal (run, id, name, payload, fingerprint, sender, state, sent_at)
SELECT run.no, :id, :name, :payload, :fingerprint, :sender, 'kept', :sent_at
FROM fencepost.run
WHERE run.namespace = :namespace AND run.id = :run_id AND run.turn = 0 AND run.state <> 'continued'
AND run.ended_at IS NULL
AND NOT EXISTS (
    SELECT 1 FROM fencepost.step
    WHERE step.run = run.no AND step.kind = 'wait' AND step.name = :name AND step.state = 'open' AND :takes::text IS NOT NULL
    AND (detail::json ->> 'takes' IS DISTINCT FROM :takes OR detail::json ->> 'job' IS NOT NULL
        OR detail::json ->> 'allows' IS NOT NULL)
)
AND (
    NOT EXISTS (
        SELECT 1 FROM fencepost.step
        WHERE step.run = run.no AND step.kind = 'wait' AND step.name = :name AND step.state <> 'open'
        AND NOT coalesce((step.detail::json ->> 'many')::boolean, false)
    )
    OR EXISTS (
        SELECT 1 FROM fencepost.step
        WHERE step.run = run.no AND step.kind = 'wait' AND step.name = :name AND step.state = 'open'
    )
)
ON CONFLICT (run, id) DO NOTHING;

-- name: find_signal
-- The signal of a run's last turn with this id.
SELECT id, name, payload, state, sent_at, sender, fingerprint, reason, position, closed_at
FROM fencepost.signal
WHERE run = (SELECT no FROM fencepost.run WHERE namespace = :namespace AND id = :run_id AND state <> 'continued')
AND id = :id;

-- name: waits_open_for
-- The open waits of a run's last turn that a signal of this name may be for, in the order in which they were opened.
SELECT position, kind, step.name, step.fingerprint, step.state, opened_at, step.version, request, detail, step.result,
    step.error, step.delivered, due_at, closed_at
FROM fencepost.run JOIN fencepost.step ON step.run = run.no
WHERE run.namespace = :namespace AND run.id = :run_id AND run.state <> 'continued'
AND step.name = :name AND step.kind = 'wait' AND step.state = 'open' ORDER BY step.no;

-- name: signals_beside
-- The signals of a run's last turn that have this name or this id, in the order in which they came.
SELECT signal.id, signal.name, payload, signal.state, sent_at, sender, signal.fingerprint, reason, position, closed_at
FROM fencepost.run JOIN fencepost.signal ON signal.run = run.no
WHERE run.namespace = :namespace AND run.id = :run_id AND run.state <> 'continued'
AND (signal.name = :name OR signal.id = :id) ORDER BY signal.no;

-- name: earlier_signal
-- The signal with this id that an earlier turn of the run has applied or refused.
SELECT signal.id, signal.name, payload, signal.state, sent_at, sender, signal.fingerprint, reason, position, closed_at
FROM fencepost.run JOIN fencepost.signal ON signal.run = run.no
WHERE run.namespace = :namespace AND run.id = :run_id AND run.turn < :turn AND signal.id = :id LIMIT 1;

-- name: wake_run
-- Let a run that waits be claimed now, for a signal that is kept.
UPDATE fencepost.run SET wake_at = :now, version = version + 1, changed_at = :now
WHERE namespace = :namespace AND run.id = :run_id AND state IN ('waiting', 'cancelling', 'compensating') AND lease IS NULL
AND coalesce(wake_at > :now, true)
AND EXISTS (SELECT 1 FROM fencepost.signal WHERE signal.run = run.no AND signal.id = :id AND signal.state = 'kept');

-- name: woken_run
-- Lock a run that a signal has made due, if it is still as the sender has left it, nobody is claiming it, and it may be
-- claimed for this lease, which is kept live; else end the transaction. The lease comes first, as everywhere.
WITH owner AS MATERIALIZED (SELECT id FROM fencepost.lease WHERE id = :lease AND state = 'live' FOR SHARE)
SELECT fencepost.all_of(count(*), 1) FROM (
    SELECT no FROM fencepost.run
    WHERE no = :run AND generation = :generation AND state = :expected AND lease IS NULL AND queue IS NULL AND resource IS NULL
    AND wake_at <= :now AND namespace = :namespace
    AND (workflow, workflow_version) IN (
        SELECT value ->> 0, (value ->> 1)::bigint FROM json_array_elements(:workflows::json)
    )
    AND EXISTS (SELECT 1 FROM owner)
    FOR NO KEY UPDATE OF run SKIP LOCKED
) AS woken;

-- name: unaudited_signals
-- Signals that their runs' ends have refused and of which the audit has no row yet; so many at most.
SELECT run, id, name, payload, state, sent_at, sender, fingerprint, reason, position, closed_at
FROM fencepost.signal WHERE audited = 0 LIMIT :limit;

-- name: note_audited
-- The audit has a row of this signal's refusal.
UPDATE fencepost.signal SET audited = 1 WHERE run = :run AND id = :id AND audited = 0;
