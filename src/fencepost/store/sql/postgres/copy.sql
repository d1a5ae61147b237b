-- A ledger copied from a file: rows as JSON objects with the names of the columns, in the order of `copy`.

-- name: paste_epoch
-- Insert epochs as they are; how many.
WITH pasted AS (
    INSERT INTO fencepost.epoch
    SELECT * FROM json_populate_recordset(NULL::fencepost.epoch, :rows::json)
    RETURNING 1
)
SELECT count(*) FROM pasted;

-- name: paste_lease
-- Insert leases as they are; how many.
WITH pasted AS (
    INSERT INTO fencepost.lease
    SELECT * FROM json_populate_recordset(NULL::fencepost.lease, :rows::json)
    RETURNING 1
)
SELECT count(*) FROM pasted;

-- name: paste_run
-- Insert runs as they are; how many.
WITH pasted AS (
    INSERT INTO fencepost.run OVERRIDING SYSTEM VALUE
    SELECT * FROM json_populate_recordset(NULL::fencepost.run, :rows::json)
    RETURNING 1
)
SELECT count(*) FROM pasted;

-- name: paste_schedule
-- Insert schedules as they are; how many.
WITH pasted AS (
    INSERT INTO fencepost.schedule OVERRIDING SYSTEM VALUE
    SELECT * FROM json_populate_recordset(NULL::fencepost.schedule, :rows::json)
    RETURNING 1
)
SELECT count(*) FROM pasted;

-- name: paste_schedule_carrier
-- Insert who has declared them as it is; how many.
WITH pasted AS (
    INSERT INTO fencepost.schedule_carrier
    SELECT * FROM json_populate_recordset(NULL::fencepost.schedule_carrier, :rows::json)
    RETURNING 1
)
SELECT count(*) FROM pasted;

-- name: paste_step
-- Insert steps as they are; how many.
WITH pasted AS (
    INSERT INTO fencepost.step OVERRIDING SYSTEM VALUE
    SELECT * FROM json_populate_recordset(NULL::fencepost.step, :rows::json)
    RETURNING 1
)
SELECT count(*) FROM pasted;

-- name: paste_operation
-- Insert operations as they are; how many. What is made from other columns is made again.
WITH pasted AS (
    INSERT INTO fencepost.operation (
        no, run, step, item, effect, contract_version, key, key_scheme, scope, request, fingerprint, policy, state,
        conflict, attempts, lookups, generation, version, compensates, approval, reference, result, error,
        delivered, delivered_at, not_before, budget_from, reserved_at, changed_at, first_token, first_lease,
        first_generation, first_dispatched_at, first_send_by, first_span_ends_at, first_outcome, first_evidence,
        first_sends, first_settled_at
    ) OVERRIDING SYSTEM VALUE
    SELECT
        no, run, step, item, effect, contract_version, key, key_scheme, scope, request, fingerprint, policy, state,
        conflict, attempts, lookups, generation, version, compensates, approval, reference, result, error,
        delivered, delivered_at, not_before, budget_from, reserved_at, changed_at, first_token, first_lease,
        first_generation, first_dispatched_at, first_send_by, first_span_ends_at, first_outcome, first_evidence,
        first_sends, first_settled_at
    FROM json_populate_recordset(NULL::fencepost.operation, :rows::json)
    RETURNING 1
)
SELECT count(*) FROM pasted;

-- name: paste_attempt
-- Insert later attempts as they are; how many.
WITH pasted AS (
    INSERT INTO fencepost.attempt
    SELECT * FROM json_populate_recordset(NULL::fencepost.attempt, :rows::json)
    RETURNING 1
)
SELECT count(*) FROM pasted;

-- name: paste_token
-- Insert tokens as they are; how many.
WITH pasted AS (
    INSERT INTO fencepost.token
    SELECT * FROM json_populate_recordset(NULL::fencepost.token, :rows::json)
    RETURNING 1
)
SELECT count(*) FROM pasted;

-- name: paste_containment
-- Insert what is contained as it is; how many.
WITH pasted AS (
    INSERT INTO fencepost.containment
    SELECT * FROM json_populate_recordset(NULL::fencepost.containment, :rows::json)
    RETURNING 1
)
SELECT count(*) FROM pasted;

-- name: paste_queue
-- Insert queues as they are; how many.
WITH pasted AS (
    INSERT INTO fencepost.queue
    SELECT * FROM json_populate_recordset(NULL::fencepost.queue, :rows::json)
    RETURNING 1
)
SELECT count(*) FROM pasted;

-- name: paste_piece
-- Insert pieces as they are; how many.
WITH pasted AS (
    INSERT INTO fencepost.piece
    SELECT * FROM json_populate_recordset(NULL::fencepost.piece, :rows::json)
    RETURNING 1
)
SELECT count(*) FROM pasted;

-- name: paste_observation
-- Insert observations as they are; how many.
WITH pasted AS (
    INSERT INTO fencepost.observation OVERRIDING SYSTEM VALUE
    SELECT * FROM json_populate_recordset(NULL::fencepost.observation, :rows::json)
    RETURNING 1
)
SELECT count(*) FROM pasted;

-- name: paste_signal
-- Insert signals as they are; how many.
WITH pasted AS (
    INSERT INTO fencepost.signal OVERRIDING SYSTEM VALUE
    SELECT * FROM json_populate_recordset(NULL::fencepost.signal, :rows::json)
    RETURNING 1
)
SELECT count(*) FROM pasted;

-- name: paste_audit
-- Insert audit rows as they are; how many.
WITH pasted AS (
    INSERT INTO fencepost.audit OVERRIDING SYSTEM VALUE
    SELECT * FROM json_populate_recordset(NULL::fencepost.audit, :rows::json)
    RETURNING 1
)
SELECT count(*) FROM pasted;

-- name: paste_permission
-- Insert who may do what as it is; how many.
WITH pasted AS (
    INSERT INTO fencepost.permission
    SELECT * FROM json_populate_recordset(NULL::fencepost.permission, :rows::json)
    RETURNING 1
)
SELECT count(*) FROM pasted;

-- name: paste_proposal
-- Insert proposals as they are; how many.
WITH pasted AS (
    INSERT INTO fencepost.proposal OVERRIDING SYSTEM VALUE
    SELECT * FROM json_populate_recordset(NULL::fencepost.proposal, :rows::json)
    RETURNING 1
)
SELECT count(*) FROM pasted;

-- name: paste_bulk
-- Insert jobs on many runs as they are; how many.
WITH pasted AS (
    INSERT INTO fencepost.bulk OVERRIDING SYSTEM VALUE
    SELECT * FROM json_populate_recordset(NULL::fencepost.bulk, :rows::json)
    RETURNING 1
)
SELECT count(*) FROM pasted;

-- name: paste_bulk_run
-- Insert the runs of those jobs as they are; how many.
WITH pasted AS (
    INSERT INTO fencepost.bulk_run
    SELECT * FROM json_populate_recordset(NULL::fencepost.bulk_run, :rows::json)
    RETURNING 1
)
SELECT count(*) FROM pasted;

-- name: paste_api_token
-- Insert API tokens as they are; how many.
WITH pasted AS (
    INSERT INTO fencepost.api_token OVERRIDING SYSTEM VALUE
    SELECT * FROM json_populate_recordset(NULL::fencepost.api_token, :rows::json)
    RETURNING 1
)
SELECT count(*) FROM pasted;

-- name: paste_account
-- Insert accounts as they are; how many.
WITH pasted AS (
    INSERT INTO fencepost.account
    SELECT * FROM json_populate_recordset(NULL::fencepost.account, :rows::json)
    RETURNING 1
)
SELECT count(*) FROM pasted;

-- name: paste_invitation
-- Insert sign-in links as they are; how many.
WITH pasted AS (
    INSERT INTO fencepost.invitation
    SELECT * FROM json_populate_recordset(NULL::fencepost.invitation, :rows::json)
    RETURNING 1
)
SELECT count(*) FROM pasted;

-- name: paste_session
-- Insert sessions as they are; how many.
WITH pasted AS (
    INSERT INTO fencepost.session
    SELECT * FROM json_populate_recordset(NULL::fencepost.session, :rows::json)
    RETURNING 1
)
SELECT count(*) FROM pasted;

-- name: continue_run
-- Number new runs from the highest on.
SELECT setval(pg_get_serial_sequence('fencepost.run', 'no'), max(no)) FROM fencepost.run;

-- name: continue_schedule
-- Number new schedules from the highest on.
SELECT setval(pg_get_serial_sequence('fencepost.schedule', 'no'), max(no)) FROM fencepost.schedule;

-- name: continue_step
-- Number new steps from the highest on.
SELECT setval(pg_get_serial_sequence('fencepost.step', 'no'), max(no)) FROM fencepost.step;

-- name: continue_operation
-- Number new operations from the highest on.
SELECT setval(pg_get_serial_sequence('fencepost.operation', 'no'), max(no)) FROM fencepost.operation;

-- name: continue_observation
-- Number new observations from the highest on.
SELECT setval(pg_get_serial_sequence('fencepost.observation', 'no'), max(no)) FROM fencepost.observation;

-- name: continue_signal
-- Number new signals from the highest on.
SELECT setval(pg_get_serial_sequence('fencepost.signal', 'no'), max(no)) FROM fencepost.signal;

-- name: continue_audit
-- Number new audit rows from the highest on.
SELECT setval(pg_get_serial_sequence('fencepost.audit', 'no'), max(no)) FROM fencepost.audit;

-- name: continue_proposal
-- Number new proposals from the highest on.
SELECT setval(pg_get_serial_sequence('fencepost.proposal', 'no'), max(no)) FROM fencepost.proposal;

-- name: continue_bulk
-- Number new jobs on many runs from the highest on.
SELECT setval(pg_get_serial_sequence('fencepost.bulk', 'no'), max(no)) FROM fencepost.bulk;

-- name: continue_api_token
-- Number new API tokens from the highest on.
SELECT setval(pg_get_serial_sequence('fencepost.api_token', 'no'), max(no)) FROM fencepost.api_token;

-- name: ledger_is_empty
-- Whether nothing was ever written here.
SELECT NOT EXISTS (SELECT FROM fencepost.run) AND NOT EXISTS (SELECT FROM fencepost.audit)
    AND NOT EXISTS (SELECT FROM fencepost.lease);

-- name: count_rows
-- How many rows each table holds, in the order of `copy`.
SELECT
    (SELECT count(*) FROM fencepost.epoch), (SELECT count(*) FROM fencepost.lease),
    (SELECT count(*) FROM fencepost.run), (SELECT count(*) FROM fencepost.schedule),
    (SELECT count(*) FROM fencepost.schedule_carrier), (SELECT count(*) FROM fencepost.step),
    (SELECT count(*) FROM fencepost.operation), (SELECT count(*) FROM fencepost.attempt),
    (SELECT count(*) FROM fencepost.token), (SELECT count(*) FROM fencepost.observation),
    (SELECT count(*) FROM fencepost.signal), (SELECT count(*) FROM fencepost.audit),
    (SELECT count(*) FROM fencepost.permission), (SELECT count(*) FROM fencepost.proposal),
    (SELECT count(*) FROM fencepost.containment), (SELECT count(*) FROM fencepost.queue),
    (SELECT count(*) FROM fencepost.piece),
    (SELECT count(*) FROM fencepost.bulk), (SELECT count(*) FROM fencepost.bulk_run),
    (SELECT count(*) FROM fencepost.api_token), (SELECT count(*) FROM fencepost.account),
    (SELECT count(*) FROM fencepost.invitation), (SELECT count(*) FROM fencepost.session);
