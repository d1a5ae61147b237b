-- Events that name no run.

-- name: taken_event
-- The run that has taken this event already, or keeps it, among those that have waited under its name: `kind` is spelled
-- out for the partial index. A run is all of its turns; what was refused has been taken by nobody.
SELECT run.id FROM step JOIN run ON run.no = step.run
JOIN run AS holder ON holder.namespace = run.namespace AND holder.id = run.id
JOIN signal ON signal.run = holder.no AND signal.id = :id
WHERE step.kind = 'wait' AND step.name = :name AND run.namespace = :namespace
AND signal.name = :name AND signal.state <> 'refused' LIMIT 1;
