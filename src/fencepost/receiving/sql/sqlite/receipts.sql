-- The keys that senders have used, and what came of them. Instants are microseconds. `:now` is the receiver's clock.

-- name: receipt_is_there
-- A row if the table is there.
SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'fencepost_receipt' AND :schema <> '';

-- name: anything_is_there
-- A row if the file is not empty.
SELECT 1 FROM sqlite_master LIMIT 1;

-- name: write_ahead
-- Let readers read beside a writer.
PRAGMA journal_mode = WAL;

-- name: create_receipt
-- One key of one caller. The list of states is that of core/states.py; a test compares them.
CREATE TABLE IF NOT EXISTS fencepost_receipt (
    caller TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('in progress', 'answered', 'unknown', 'free')),
    owner TEXT NOT NULL,
    begun_at INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    expires_at INTEGER,
    status INTEGER,
    headers TEXT,
    body BLOB,
    note TEXT,
    PRIMARY KEY (caller, key),
    -- An answer can be given again, and nothing else is. Its body may be missing: it was too large to be kept.
    CHECK ((state = 'answered') = (status IS NOT NULL)),
    CHECK ((status IS NULL) = (headers IS NULL)),
    CHECK (status IS NOT NULL OR body IS NULL),
    -- Nobody forgets a key of which it is not known what it did.
    CHECK ((state IN ('answered', 'free')) = (expires_at IS NOT NULL))
) STRICT;

-- name: index_receipt
-- What is over is looked for by its time.
CREATE INDEX IF NOT EXISTS fencepost_receipt_over ON fencepost_receipt (expires_at) WHERE expires_at IS NOT NULL;

-- name: begin_receipt
-- Take a key for a request, unless it is taken, or answered and not over. Again by the same owner it does nothing new.
INSERT INTO fencepost_receipt (caller, key, fingerprint, state, owner, begun_at, due_at)
VALUES (:caller, :key, :fingerprint, 'in progress', :owner, :now, :now + :within)
ON CONFLICT (caller, key) DO UPDATE SET
    fingerprint = excluded.fingerprint, state = excluded.state, owner = excluded.owner, begun_at = excluded.begun_at,
    due_at = excluded.due_at, expires_at = NULL, status = NULL, headers = NULL, body = NULL, note = NULL
WHERE (fencepost_receipt.state = 'free' AND fencepost_receipt.fingerprint = excluded.fingerprint)
OR (fencepost_receipt.state IN ('free', 'answered') AND fencepost_receipt.expires_at <= excluded.begun_at)
OR (fencepost_receipt.state = 'in progress' AND fencepost_receipt.owner = excluded.owner);

-- name: record_receipt
-- Write a key with its answer, in the handler's own transaction; as `begin_receipt`, unless somebody has it.
INSERT INTO fencepost_receipt (
    caller, key, fingerprint, state, owner, begun_at, due_at, expires_at, status, headers, body
) VALUES (
    :caller, :key, :fingerprint, 'answered', :owner, :now, :now + :within, :now + :kept, :status, :headers, :body
)
ON CONFLICT (caller, key) DO UPDATE SET
    fingerprint = excluded.fingerprint, state = excluded.state, owner = excluded.owner, begun_at = excluded.begun_at,
    due_at = excluded.due_at, expires_at = excluded.expires_at, status = excluded.status, headers = excluded.headers,
    body = excluded.body, note = NULL
WHERE (fencepost_receipt.state = 'free' AND fencepost_receipt.fingerprint = excluded.fingerprint)
OR (fencepost_receipt.state IN ('free', 'answered') AND fencepost_receipt.expires_at <= excluded.begun_at);

-- name: find_receipt
-- What is known of a key now.
SELECT fingerprint, state, owner, begun_at, due_at, status, headers, body, :now FROM fencepost_receipt
WHERE caller = :caller AND key = :key AND (expires_at IS NULL OR expires_at > :now);

-- name: answer_receipt
-- Keep the first result; again by the same owner it does nothing new.
UPDATE fencepost_receipt SET
    state = 'answered', status = :status, headers = :headers, body = :body, expires_at = :now + :kept
WHERE caller = :caller AND key = :key AND owner = :owner AND state IN ('in progress', 'answered');

-- name: release_receipt
-- Say that nothing was done.
UPDATE fencepost_receipt SET state = 'free', expires_at = :now + :kept
WHERE caller = :caller AND key = :key AND owner = :owner AND state = 'in progress';

-- name: lose_receipt
-- Say that it is not known what was done.
UPDATE fencepost_receipt SET state = 'unknown'
WHERE caller = :caller AND key = :key AND owner = :owner AND state = 'in progress';

-- name: ask_receipt
-- Take over a key of which it is not known what was done, in order to ask. `begun_at` stays: it is what is asked about.
UPDATE fencepost_receipt SET state = 'in progress', owner = :owner, due_at = :now + :within
WHERE caller = :caller AND key = :key AND owner = :previous
AND (state = 'unknown' OR (state = 'in progress' AND due_at <= :now));

-- name: begin_again
-- Run the request after all, now that it is known that nothing was done.
UPDATE fencepost_receipt SET begun_at = :now, due_at = :now + :within
WHERE caller = :caller AND key = :key AND owner = :owner AND state = 'in progress';

-- name: settle_answered
-- A person says what the answer was.
UPDATE fencepost_receipt SET
    state = 'answered', owner = :owner, status = :status, headers = :headers, body = :body, expires_at = :now + :kept,
    note = :note
WHERE caller = :caller AND key = :key
AND (state = 'unknown' OR (state = 'in progress' AND due_at <= :now));

-- name: settle_free
-- A person says that nothing was done.
UPDATE fencepost_receipt SET state = 'free', owner = :owner, expires_at = :now + :kept, note = :note
WHERE caller = :caller AND key = :key
AND (state = 'unknown' OR (state = 'in progress' AND due_at <= :now));

-- name: unsettled_receipts
-- Keys of which it is not known what was done, the oldest first.
SELECT caller, key, begun_at, state FROM fencepost_receipt
WHERE state = 'unknown' OR (state = 'in progress' AND due_at <= :now) ORDER BY begun_at LIMIT :limit;

-- name: forget_receipts
-- Remove keys whose window is over.
DELETE FROM fencepost_receipt WHERE (caller, key) IN (
    SELECT caller, key FROM fencepost_receipt WHERE expires_at <= :now LIMIT :limit
);

-- name: lock_key
-- Keep others from the same key until the end of the transaction: a file has one writer.
UPDATE fencepost_receipt SET note = note WHERE caller = :caller AND key = :key AND 0;
