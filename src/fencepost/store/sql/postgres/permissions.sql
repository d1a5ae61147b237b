-- Who may do what to the whole ledger.

-- name: all_permissions
-- What the code of each namespace declared last.
SELECT namespace, policy FROM fencepost.permission ORDER BY namespace;
