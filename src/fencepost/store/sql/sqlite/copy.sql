-- Everything that a ledger holds, table by table, under the names of a server's columns; `copy` reads it in this order.

-- name: copy_epoch
-- What was restored when.
SELECT * FROM epoch ORDER BY number;

-- name: copy_lease
-- Every worker life; runs refer to them.
SELECT * FROM lease ORDER BY id;

-- name: copy_run
-- Every run, parents before their children.
SELECT * FROM run ORDER BY no;

-- name: copy_schedule
-- Every schedule; each refers to a worker life, and to a run once it has fired.
SELECT * FROM schedule ORDER BY no;

-- name: copy_schedule_carrier
-- Which worker lives have declared them.
SELECT * FROM schedule_carrier ORDER BY schedule, lease;

-- name: copy_step
-- Every step, in the order in which they were opened.
SELECT rowid AS no, * FROM step ORDER BY rowid;

-- name: copy_operation
-- Every operation, in the order in which they were reserved.
SELECT rowid AS no, * FROM operation ORDER BY rowid;

-- name: copy_attempt
-- Every attempt after the first.
SELECT * FROM attempt ORDER BY run, step, item, number;

-- name: copy_token
-- The highest token of each resource.
SELECT * FROM token ORDER BY resource;

-- name: copy_observation
-- Everything that was seen.
SELECT * FROM observation ORDER BY no;

-- name: copy_signal
-- Every signal, in the order in which they came.
SELECT rowid AS no, * FROM signal ORDER BY rowid;

-- name: copy_audit
-- Every audit row, chained as it is.
SELECT * FROM audit ORDER BY no;

-- name: copy_permission
-- Who may do what, in each namespace.
SELECT * FROM permission ORDER BY namespace;

-- name: copy_proposal
-- Everything that was proposed.
SELECT * FROM proposal ORDER BY no;

-- name: copy_containment
-- Everything that is contained; a breaker may refer to the run that it lets through.
SELECT * FROM containment ORDER BY mark;

-- name: copy_queue
-- Every queue with its limits.
SELECT * FROM queue ORDER BY namespace, name;

-- name: copy_piece
-- Every piece of a value that is kept apart.
SELECT * FROM piece ORDER BY namespace, run_id, digest, number;

-- name: copy_bulk
-- Every job on many runs.
SELECT * FROM bulk ORDER BY no;

-- name: copy_bulk_run
-- The runs of those jobs.
SELECT * FROM bulk_run ORDER BY bulk, place;

-- name: copy_api_token
-- Every token by which somebody calls over HTTP, revoked ones too.
SELECT * FROM api_token ORDER BY no;

-- name: copy_account
-- Everybody who comes to the console with a password.
SELECT * FROM account ORDER BY namespace, person;

-- name: copy_invitation
-- Every sign-in link, used ones too.
SELECT * FROM invitation ORDER BY digest;

-- name: copy_session
-- Every session, ended ones too.
SELECT * FROM session ORDER BY digest;

-- name: leases_in_force
-- Worker lives that may still write: none of them has given its lease back, or let it run out.
SELECT id, host, pid FROM lease WHERE state = 'live' AND expires_at + :margin > :now ORDER BY id;

-- name: note_copied
-- Say where the ledger has gone, so that nobody works on this file any more.
INSERT INTO meta (name, value) VALUES ('copied to', :place);

-- name: copied_to
-- Where the ledger of this file has gone, if it has.
SELECT value FROM meta WHERE name = 'copied to';
