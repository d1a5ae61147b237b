-- The turns that a run has had before its last one.

-- name: turns_with_effects
-- The earlier turns of a run in which something was sent or a child was started, the last one first.
SELECT run.no FROM fencepost.run
WHERE namespace = :namespace AND id = :id AND turn < :turn AND (
    EXISTS (SELECT 1 FROM fencepost.operation WHERE operation.run = run.no AND operation.attempts > 0)
    OR EXISTS (SELECT 1 FROM fencepost.run AS child WHERE child.parent = run.no AND child.parent_step IS NOT NULL)
)
ORDER BY turn DESC;
