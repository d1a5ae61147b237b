-- The ends of runs, for those who still live them.

-- name: ended_by_hand
-- Those of these runs that a person has ended; `:runs` is a JSON list of numbers.
SELECT no FROM run WHERE no IN (SELECT value FROM json_each(:runs)) AND state = 'terminated' ORDER BY no;
