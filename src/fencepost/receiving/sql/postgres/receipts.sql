-- The keys that senders have used, and what came of them. Instants are microseconds. The table is in a schema of
-- its own. `:now` is the clock of a test, or NULL: then the server's counts.

-- name: receipt_is_there
-- A row if the table is there.
SELECT 1 FROM pg_class JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace
WHERE pg_namespace.nspname = :schema AND pg_class.relname = 'receipt_over';

-- name: begin_making
-- Make everything or nothing.
BEGIN;

-- name: lock_making
-- One process at a time; until the end of the transaction.
SELECT pg_advisory_xact_lock(hashtextextended('fencepost receipts', 0));

-- name: commit_making
-- It is made.
COMMIT;

-- name: create_schema
-- The schema that holds it.
CREATE SCHEMA IF NOT EXISTS fencepost;

-- name: create_clock
-- Microseconds of the server's clock, unless a test says otherwise.
CREATE OR REPLACE FUNCTION fencepost.clock(told bigint) RETURNS bigint LANGUAGE sql STABLE
AS $$ SELECT coalesce(told, (extract(epoch FROM statement_timestamp()) * 1000000)::bigint) $$;

-- name: create_receipt
-- One key of one caller. The list of states is that of core/states.py; a test compares them.
CREATE TABLE IF NOT EXISTS fencepost.receipt (
    caller text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    fingerprint text NOT NULL,
    state text COLLATE "C" NOT NULL CHECK (state IN ('in progress', 'answered', 'unknown', 'free')),
    owner text NOT NULL,
    begun_at bigint NOT NULL,
    due_at bigint NOT NULL,
    expires_at bigint,
    status bigint,
    headers text,
    body bytea,
    note text,
    PRIMARY KEY (caller, key),
    -- An answer can be given again, and nothing else is. Its body may be missing: it was too large to be kept.
    CHECK ((state = 'answered') = (status IS NOT NULL)),
    CHECK ((status IS NULL) = (headers IS NULL)),
    CHECK (status IS NOT NULL OR body IS NULL),
    -- Nobody forgets a key of which it is not known what it did.
    CHECK ((state IN ('answered', 'free')) = (expires_at IS NOT NULL))
);

-- name: index_receipt
-- What is over is looked for by its time.
CREATE INDEX IF NOT EXISTS receipt_over ON fencepost.receipt (expires_at) WHERE expires_at IS NOT NULL;

-- name: begin_receipt
-- Take a key for a request, unless it is taken, or answered and not over. Again by the same owner it does nothing new.
INSERT INTO fencepost.receipt AS receipt (caller, key, fingerprint, state, owner, begun_at, due_at)
VALUES (
    :caller, :key, :fingerprint, 'in progress', :owner, fencepost.clock(:now), fencepost.clock(:now) + :within
)
ON CONFLICT (caller, key) DO UPDATE SET
    fingerprint = excluded.fingerprint, state = excluded.state, owner = excluded.owner, begun_at = excluded.begun_at,
    due_at = excluded.due_at, expires_at = NULL, status = NULL, headers = NULL, body = NULL, note = NULL
WHERE (receipt.state = 'free' AND receipt.fingerprint = excluded.fingerprint)
OR (receipt.state IN ('free', 'answered') AND receipt.expires_at <= excluded.begun_at)
OR (receipt.state = 'in progress' AND receipt.owner = excluded.owner);

-- name: record_receipt
-- Write a key with its answer, in the handler's own transaction; as `begin_receipt`, unless somebody has it.
INSERT INTO fencepost.receipt AS receipt (
    caller, key, fingerprint, state, owner, begun_at, due_at, expires_at, status, headers, body
) VALUES (
    :caller, :key, :fingerprint, 'answered', :owner, fencepost.clock(:now), fencepost.clock(:now) + :within,
    fencepost.clock(:now) + :kept, :status, :headers, :body
)
ON CONFLICT (caller, key) DO UPDATE SET
    fingerprint = excluded.fingerprint, state = excluded.state, owner = excluded.owner, begun_at = excluded.begun_at,
    due_at = excluded.due_at, expires_at = excluded.expires_at, status = excluded.status, headers = excluded.headers,
    body = excluded.body, note = NULL
WHERE (receipt.state = 'free' AND receipt.fingerprint = excluded.fingerprint)
OR (receipt.state IN ('free', 'answered') AND receipt.expires_at <= excluded.begun_at);

-- name: find_receipt
-- What is known of a key now.
SELECT fingerprint, state, owner, begun_at, due_at, status, headers, body, fencepost.clock(:now)
FROM fencepost.receipt
WHERE caller = :caller AND key = :key AND (expires_at IS NULL OR expires_at > fencepost.clock(:now));

-- name: answer_receipt
-- Keep the first result; again by the same owner it does nothing new.
UPDATE fencepost.receipt SET
    state = 'answered', status = :status, headers = :headers, body = :body,
    expires_at = fencepost.clock(:now) + :kept
WHERE caller = :caller AND key = :key AND owner = :owner AND state IN ('in progress', 'answered');

-- name: release_receipt
-- Say that nothing was done.
UPDATE fencepost.receipt SET state = 'free', expires_at = fencepost.clock(:now) + :kept
WHERE caller = :caller AND key = :key AND owner = :owner AND state = 'in progress';

-- name: lose_receipt
-- Say that it is not known what was done.
UPDATE fencepost.receipt SET state = 'unknown'
WHERE caller = :caller AND key = :key AND owner = :owner AND state = 'in progress';

-- name: ask_receipt
-- Take over a key of which it is not known what was done, in order to ask. `begun_at` stays: it is what is asked about.
UPDATE fencepost.receipt SET state = 'in progress', owner = :owner, due_at = fencepost.clock(:now) + :within
WHERE caller = :caller AND key = :key AND owner = :previous
AND (state = 'unknown' OR (state = 'in progress' AND due_at <= fencepost.clock(:now)));

-- name: begin_again
-- Run the request after all, now that it is known that nothing was done.
UPDATE fencepost.receipt SET begun_at = fencepost.clock(:now), due_at = fencepost.clock(:now) + :within
WHERE caller = :caller AND key = :key AND owner = :owner AND state = 'in progress';

-- name: settle_answered
-- A person says what the answer was.
UPDATE fencepost.receipt SET
    state = 'answered', owner = :owner, status = :status, headers = :headers, body = :body,
    expires_at = fencepost.clock(:now) + :kept, note = :note
WHERE caller = :caller AND key = :key
AND (state = 'unknown' OR (state = 'in progress' AND due_at <= fencepost.clock(:now)));

-- name: settle_free
-- A person says that nothing was done.
UPDATE fencepost.receipt SET state = 'free', owner = :owner, expires_at = fencepost.clock(:now) + :kept, note = :note
WHERE caller = :caller AND key = :key
AND (state = 'unknown' OR (state = 'in progress' AND due_at <= fencepost.clock(:now)));

-- name: unsettled_receipts
-- Keys of which it is not known what was done, the oldest first.
SELECT caller, key, begun_at, state FROM fencepost.receipt
WHERE state = 'unknown' OR (state = 'in progress' AND due_at <= fencepost.clock(:now))
ORDER BY begun_at LIMIT :limit;

-- name: forget_receipts
-- Remove keys whose window is over.
DELETE FROM fencepost.receipt WHERE (caller, key) IN (
    SELECT caller, key FROM fencepost.receipt WHERE expires_at <= fencepost.clock(:now) LIMIT :limit
);

-- name: lock_key
-- Keep others from the same key until the end of the transaction; whether nobody has it.
SELECT pg_try_advisory_xact_lock(hashtextextended(:caller || ' ' || :key, 1));
