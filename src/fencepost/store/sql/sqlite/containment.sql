-- What is contained: by a person, or by a breaker that has opened. Runs that meet it wait behind it by its mark.

-- name: contain
-- Contain something, unless it is already; what a breaker stops becomes a person's, if a person wants it.
INSERT INTO containment (mark, namespace, kind, name, actor, reason, at, cool_down, probe_at)
VALUES (:mark, :namespace, :kind, :name, :actor, :reason, :at, :cool_down, :probe_at)
ON CONFLICT (mark) DO UPDATE SET
    actor = excluded.actor, reason = excluded.reason, at = excluded.at, cool_down = NULL, probe_at = NULL,
    probe_run = NULL, probe_until = NULL
WHERE containment.cool_down IS NOT NULL AND excluded.cool_down IS NULL;

-- name: all_contained
-- Everything that is contained in a namespace, the oldest first.
SELECT mark, namespace, kind, name, actor, reason, at, cool_down, probe_at, probe_run, probe_until
FROM containment WHERE namespace = :namespace ORDER BY at, mark;

-- name: find_contained
-- One thing that is contained.
SELECT mark, namespace, kind, name, actor, reason, at, cool_down, probe_at, probe_run, probe_until
FROM containment WHERE mark = :mark;

-- name: release
-- Contain something no more.
DELETE FROM containment WHERE mark = :mark;

-- name: wake_behind
-- Let the runs go on that wait behind something: they meet what else is contained, if anything is.
UPDATE run SET wake_at = min(coalesce(wake_at, :now), :now), behind = NULL, version = version + 1
WHERE no IN (
    SELECT no FROM run WHERE behind IS NOT NULL AND instr(behind, :mark) > 0
    ORDER BY no
);

-- name: waits_for_nothing
-- Whether a run waits behind something that is contained no more: its release was cut short before it woke the run.
SELECT 1 FROM run WHERE behind IS NOT NULL AND namespace = :namespace
AND (SELECT count(*) FROM containment WHERE instr(run.behind, mark) > 0)
    < length(behind) - length(replace(behind, char(10), '')) - 1
LIMIT 1;

-- name: wake_forgotten
-- Let the runs go on of which `waits_for_nothing` tells.
UPDATE run SET wake_at = min(coalesce(wake_at, :now), :now), behind = NULL, version = version + 1
WHERE no IN (
    SELECT no FROM run WHERE behind IS NOT NULL AND namespace = :namespace
    AND (SELECT count(*) FROM containment WHERE instr(run.behind, mark) > 0)
        < length(behind) - length(replace(behind, char(10), '')) - 1
    ORDER BY no
);

-- name: next_behind
-- The run that has waited longest behind something: each that fails goes to the end.
SELECT no FROM run WHERE behind IS NOT NULL AND instr(behind, :mark) > 0 ORDER BY changed_at, no LIMIT 1;

-- name: let_through
-- Let one run through a breaker that has cooled down, unless another one is let through just now.
UPDATE containment SET probe_run = :run, probe_until = :until
WHERE mark = :mark AND probe_at <= :now AND (probe_run IS NULL OR probe_until <= :now);

-- name: wake_one_behind
-- Let one run go on that waits behind something.
UPDATE run SET wake_at = min(coalesce(wake_at, :now), :now), behind = NULL, version = version + 1
WHERE no = :run AND behind IS NOT NULL;

-- name: shut_again
-- The run that was let through has failed too: stay shut for longer.
UPDATE containment SET cool_down = :cool_down, probe_at = :probe_at, probe_run = NULL, probe_until = NULL
WHERE mark = :mark AND probe_run = :run;

-- name: close_breaker
-- The run that was let through has seen that it works again.
DELETE FROM containment WHERE mark = :mark AND cool_down IS NOT NULL AND probe_run = :run;
