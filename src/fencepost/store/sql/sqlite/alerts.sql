-- What alerts measure. Each row is a value, how many things it is about, and one of them by name; no row, or 0: nothing.

-- name: alert_unknown_effects
-- Since when the oldest effect is unknown, in runs that can hold one.
SELECT :now - unknown_since, count(*) OVER (), run.id || ' ' || step
FROM operation JOIN run ON run.no = operation.run
WHERE unknown_since IS NOT NULL AND run.namespace = :namespace
AND run.state IN ('ready', 'running', 'waiting', 'held', 'cancelling', 'compensating', 'terminated')
ORDER BY unknown_since LIMIT 1;

-- name: alert_conflicts
-- Effects whose evidence contradicts itself.
SELECT count(*) OVER (), count(*) OVER (), run.id || ' ' || step
FROM operation JOIN run ON run.no = operation.run
WHERE conflict = 1 AND run.namespace = :namespace ORDER BY run.no LIMIT 1;

-- name: alert_held_runs
-- Held runs by reason, most of them first.
SELECT count(*), count(*), json_extract(hold, '$.reason') FROM run
WHERE namespace = :namespace AND state = 'held' GROUP BY 3 ORDER BY 1 DESC, 3;

-- name: alert_compensation_failed
-- Runs that were not compensated as they should have been.
SELECT count(*), count(*), min(id) FROM run
WHERE namespace = :namespace AND state IN ('partly compensated', 'compensation failed');

-- name: alert_workers_lost
-- Leases that are overdue beyond their margin, under which runs are owned.
SELECT :now - expires_at - margin, count(*) OVER (), 'pid ' || pid || ' on ' || host FROM lease
WHERE state = 'live' AND expires_at + margin < :now
AND EXISTS (SELECT 1 FROM run WHERE run.lease = lease.id AND run.namespace = :namespace)
ORDER BY expires_at LIMIT 1;

-- name: alert_lease_losses
-- Leases that have run out since then.
SELECT count(*), count(*), max('pid ' || pid || ' on ' || host) FROM lease
WHERE state = 'expired' AND closed_at >= :since;

-- name: alert_stale_writes
-- Reports of workers that did not own the run any more, among the newest observations.
SELECT count(*), count(*), min(run.id) FROM observation JOIN run ON run.no = observation.run
WHERE observation.no > (SELECT max(no) - 100000 FROM observation)
AND current = 0 AND kind = 'reply' AND seen_at >= :since AND namespace = :namespace;

-- name: alert_queue_age
-- Since when the run that has waited longest could have been taken; one that keeps its place in line does not wait.
SELECT :now - wake_at, count(*) OVER (), id FROM (
    SELECT * FROM run WHERE queue IS NULL AND lease IS NULL AND wake_at IS NOT NULL AND wake_at <= :now
    UNION ALL
    SELECT * FROM run WHERE queue IS NOT NULL AND lease IS NULL AND wake_at IS NOT NULL AND wake_at <= :now
) AS run
WHERE namespace = :namespace AND (resource IS NULL OR state <> 'ready' OR NOT EXISTS (
    SELECT 1 FROM run AS earlier
    WHERE earlier.namespace = run.namespace AND earlier.resource = run.resource AND earlier.resource IS NOT NULL
    AND earlier.ended_at IS NULL AND earlier.no < run.no
))
ORDER BY wake_at LIMIT 1;

-- name: alert_open_breakers
-- Since when the breaker is open that opened first.
SELECT :now - at, count(*) OVER (), kind || ' ' || name FROM containment
WHERE namespace = :namespace AND cool_down IS NOT NULL ORDER BY at, mark LIMIT 1;

-- name: alert_containments
-- Since when something is contained by a person, the longest.
SELECT :now - at, count(*) OVER (), kind || ' ' || name || ' by ' || actor FROM containment
WHERE namespace = :namespace AND cool_down IS NULL ORDER BY at, mark LIMIT 1;

-- name: alert_schedules
-- By how much the latest schedule is late that waits for nothing.
SELECT :now - next_at, count(*) OVER (), name FROM schedule
LEFT JOIN run AS first ON first.no = schedule.last_run
LEFT JOIN run ON run.namespace = first.namespace AND run.id = first.id AND run.state <> 'continued'
WHERE schedule.namespace = :namespace AND paused_at IS NULL AND next_at <= :now
AND (waits = 0 OR run.ended_at IS NOT NULL)
ORDER BY next_at LIMIT 1;

-- name: alert_proposals
-- Since when the oldest proposal waits for a second person.
SELECT :now - proposed_at, count(*) OVER (), verb || ' ' || run.id FROM proposal JOIN run ON run.no = proposal.run
WHERE proposal.state = 'open' AND expires_at > :now AND namespace = :namespace
ORDER BY proposed_at LIMIT 1;

-- name: alert_lost_time
-- Since when the time lost with a restore is open.
SELECT :now - began_at, 1, 'epoch ' || number FROM epoch
WHERE number = (SELECT max(number) FROM epoch) AND closed_at IS NULL;

-- name: write_nothing
-- Write what is there already: as long as this takes with its commit, every step waits.
UPDATE meta SET value = value WHERE name = 'marker';
