-- The ends of runs, for those who still live them.

-- name: ended_by_hand
-- Those of these runs that a person has ended; `:runs` is a JSON list of numbers.
SELECT no FROM fencepost.run WHERE no IN (SELECT value::bigint FROM jsonb_array_elements_text(:runs::jsonb)) AND state = 'terminated' ORDER BY no;
