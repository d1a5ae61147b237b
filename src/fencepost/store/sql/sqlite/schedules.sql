-- Schedules: declared by workers that begin, moved by whoever fires them. `:names` is a JSON list.

-- name: all_schedules
-- The schedules of a namespace with what became of their last runs, how many live workers declare each, and whether the
-- one that declared it last lives.
SELECT schedule.no, schedule.namespace, schedule.name, schedule.workflow, schedule.workflow_version, schedule.principal,
    schedule.input, schedule.fingerprint, cron, zone, overlap, catch_up, catch_up_within, next_at, declared_by,
    declared_at, schedule.version, schedule.changed_at, formerly, last_at, last_run, waits, passed, note, paused_at,
    run.id, run.state, (
        SELECT count(*) FROM schedule_carrier JOIN lease ON lease.id = schedule_carrier.lease
        WHERE schedule_carrier.schedule = schedule.no AND lease.state = 'live' AND lease.expires_at > :now
    ), EXISTS (
        SELECT 1 FROM lease WHERE lease.id = declared_by AND lease.state = 'live' AND lease.expires_at > :now
    )
FROM schedule LEFT JOIN run AS first ON first.no = schedule.last_run
LEFT JOIN run ON run.namespace = first.namespace AND run.id = first.id AND run.state <> 'continued'
WHERE schedule.namespace = :namespace ORDER BY schedule.name;

-- name: due_schedules
-- The schedules among those named whose instant has come, and waits for no run.
SELECT schedule.no, schedule.namespace, schedule.name, schedule.workflow, schedule.workflow_version, schedule.principal,
    schedule.input, schedule.fingerprint, cron, zone, overlap, catch_up, catch_up_within, next_at, declared_by,
    declared_at, schedule.version, schedule.changed_at, formerly, last_at, last_run, waits, passed, note, paused_at,
    run.id, run.state, (
        SELECT count(*) FROM schedule_carrier JOIN lease ON lease.id = schedule_carrier.lease
        WHERE schedule_carrier.schedule = schedule.no AND lease.state = 'live' AND lease.expires_at > :now
    ), EXISTS (
        SELECT 1 FROM lease WHERE lease.id = declared_by AND lease.state = 'live' AND lease.expires_at > :now
    )
FROM schedule LEFT JOIN run AS first ON first.no = schedule.last_run
LEFT JOIN run ON run.namespace = first.namespace AND run.id = first.id AND run.state <> 'continued'
WHERE next_at <= :now AND schedule.namespace = :namespace AND paused_at IS NULL
AND (schedule.name IN (SELECT value FROM json_each(:names)) OR formerly IN (SELECT value FROM json_each(:names)))
AND (waits = 0 OR run.ended_at IS NOT NULL)
ORDER BY next_at, schedule.no;

-- name: next_due_schedule
-- When the earliest of the named schedules falls due.
SELECT min(next_at) FROM schedule
WHERE schedule.namespace = :namespace AND paused_at IS NULL
AND (schedule.name IN (SELECT value FROM json_each(:names)) OR formerly IN (SELECT value FROM json_each(:names)))
AND (waits = 0 OR EXISTS (
    SELECT 1 FROM run AS first JOIN run ON run.namespace = first.namespace AND run.id = first.id
    WHERE first.no = schedule.last_run AND run.state <> 'continued' AND run.ended_at IS NOT NULL
));

-- name: add_schedule
-- Insert a schedule.
INSERT INTO schedule (
    namespace, name, workflow, workflow_version, principal, input, fingerprint, cron, zone, overlap, catch_up,
    catch_up_within, next_at, note, declared_by, declared_at, changed_at
) VALUES (
    :namespace, :name, :workflow, :workflow_version, :principal, :input, :fingerprint, :cron, :zone, :overlap, :catch_up,
    :catch_up_within, :next_at, :note, :declared_by, :declared_at, :changed_at
);

-- name: move_schedule
-- Write a schedule as it is to be, if it is still as it was seen.
UPDATE schedule SET
    name = :name, formerly = :formerly, workflow = :workflow, workflow_version = :workflow_version,
    principal = :principal, input = :input, fingerprint = :fingerprint, cron = :cron, zone = :zone, overlap = :overlap,
    catch_up = :catch_up, catch_up_within = :catch_up_within, next_at = :next_at, waits = :waits, passed = :passed,
    note = :note, paused_at = :paused_at, declared_by = :declared_by, declared_at = :declared_at,
    version = version + 1, changed_at = :changed_at
WHERE no = :no AND version = :version;

-- name: take_name
-- A schedule has this name now, so that no other is meant by it any more.
UPDATE schedule SET formerly = NULL, version = version + 1
WHERE namespace = :namespace AND formerly = :name AND name <> :name;

-- name: note_started
-- The run that was started last for a schedule, the instant that it stands for, and whether the next one waits for it.
UPDATE schedule SET last_at = :last_at, last_run = :last_run, waits = :waits WHERE no = :no;

-- name: remove_schedule
-- Remove a schedule; its runs stay.
DELETE FROM schedule WHERE no = :no;

-- name: carry_schedule
-- Note that a worker life declares a schedule.
INSERT INTO schedule_carrier (schedule, lease) VALUES (:schedule, :lease) ON CONFLICT (schedule, lease) DO NOTHING;

-- name: forget_carriers
-- Forget the worker lives that are over.
DELETE FROM schedule_carrier WHERE (SELECT state FROM lease WHERE lease.id = schedule_carrier.lease) <> 'live';

-- name: remove_carriers
-- Forget who declares a schedule.
DELETE FROM schedule_carrier WHERE schedule = :no;
