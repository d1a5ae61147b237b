-- The ledger's tables, in a schema of their own. Instants are microseconds of the store's clock; payloads are canonical
-- JSON text. The lists in CHECKs are those of core/states.py; a test compares them. Texts that are looked up compare by
-- their bytes, so that no change of a system's sorting rules can break an index.

CREATE SCHEMA IF NOT EXISTS fencepost;

-- What this schema is: its marker, number and epoch.
CREATE TABLE fencepost.meta (
    name text COLLATE "C" NOT NULL PRIMARY KEY,
    value text NOT NULL
);

INSERT INTO fencepost.meta (name, value) VALUES ('marker', 'fencepost ledger'), ('schema', '1'), ('epoch', '0');

-- The number of the last commit of each connection, written in that commit: after a connection was lost in the middle
-- of one, what became of it is read here. `at` is the highest time that it has stored.
CREATE TABLE fencepost.mark (
    id text COLLATE "C" NOT NULL PRIMARY KEY,
    number bigint NOT NULL,
    at bigint NOT NULL
) WITH (fillfactor = 50);

-- One worker life's claim to be alive; never reused.
CREATE TABLE fencepost.lease (
    id text COLLATE "C" NOT NULL PRIMARY KEY,
    host text NOT NULL,
    boot_id text NOT NULL,
    pid bigint NOT NULL,
    process_started bigint NOT NULL,
    state text COLLATE "C" NOT NULL CHECK (state IN ('live', 'expired', 'ended')),
    taken_at bigint NOT NULL,
    renewed_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    closed_at bigint,
    CHECK ((state = 'live') = (closed_at IS NULL))
) WITH (fillfactor = 70);

-- A claim looks for live leases; those that are over stay for the record and are not looked at again. It is on `id`, so
-- that a renewal changes no indexed column.
CREATE INDEX lease_live ON fencepost.lease (id) WHERE state = 'live';

-- One execution of a workflow; `no` is what the other tables refer to.
CREATE TABLE fencepost.run (
    no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    workflow text COLLATE "C" NOT NULL,
    workflow_version bigint NOT NULL,
    principal text,
    input text NOT NULL,
    fingerprint text NOT NULL,
    state text COLLATE "C" NOT NULL CHECK (state IN (
        'ready', 'running', 'waiting', 'held', 'cancelling', 'compensating', 'succeeded', 'failed', 'cancelled',
        'terminated', 'compensated', 'partly compensated', 'compensation failed'
    )),
    generation bigint NOT NULL CHECK (generation >= 0),
    version bigint NOT NULL,
    lease text COLLATE "C" REFERENCES fencepost.lease (id),
    wake_at bigint,
    parent bigint REFERENCES fencepost.run (no),
    result text,
    error text,
    hold text,
    cancel text,
    delivered bigint NOT NULL DEFAULT 0,
    created_at bigint NOT NULL,
    changed_at bigint NOT NULL,
    ended_at bigint,
    UNIQUE (namespace, id),
    CHECK (state <> 'running' OR lease IS NOT NULL),
    CHECK (lease IS NULL OR state IN ('running', 'cancelling', 'compensating')),
    CHECK (state <> 'ready' OR wake_at IS NOT NULL),
    CHECK (wake_at IS NULL OR state IN ('ready', 'running', 'waiting', 'cancelling', 'compensating')),
    CHECK ((state = 'held') = (hold IS NOT NULL)),
    CHECK ((state IN (
        'succeeded', 'failed', 'cancelled', 'terminated', 'compensated', 'partly compensated', 'compensation failed'
    )) = (ended_at IS NOT NULL)),
    CHECK (state <> 'succeeded' OR result IS NOT NULL),
    CHECK (state <> 'failed' OR error IS NOT NULL),
    CHECK (state NOT IN ('cancelling', 'cancelled') OR cancel IS NOT NULL)
) WITH (fillfactor = 70);

-- A claim takes unowned runs in the order in which they fall due; runs that wait for a signal alone are not in it.
CREATE INDEX run_due ON fencepost.run (wake_at) WHERE lease IS NULL AND wake_at IS NOT NULL;

-- A claim, and a worker looking for its signals, go by owner; most runs have none.
CREATE INDEX run_owned ON fencepost.run (lease) WHERE lease IS NOT NULL;

-- A person lists runs by state, newest first.
CREATE INDEX run_listed ON fencepost.run (namespace, state, no);

-- A recorded position of a run that is not an effect. `no` tells in which order they were opened.
CREATE TABLE fencepost.step (
    no bigint GENERATED ALWAYS AS IDENTITY,
    run bigint NOT NULL REFERENCES fencepost.run (no),
    position text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL CHECK (
        kind IN ('model', 'read', 'compute', 'wait', 'sleep', 'child', 'compensate', 'cancel')
    ),
    name text COLLATE "C" NOT NULL,
    fingerprint text NOT NULL,
    version bigint NOT NULL,
    state text COLLATE "C" NOT NULL CHECK (state IN ('open', 'done', 'failed', 'cancelled')),
    request text,
    detail text,
    result text,
    error text,
    delivered bigint,
    due_at bigint,
    opened_at bigint NOT NULL,
    closed_at bigint,
    PRIMARY KEY (run, position),
    CHECK ((state = 'open') = (closed_at IS NULL)),
    CHECK (state <> 'failed' OR error IS NOT NULL)
) WITH (fillfactor = 80);

OPERATION_AND_ATTEMPT

-- Something seen, by whoever saw it, current or stale.
CREATE TABLE fencepost.observation (
    no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run bigint NOT NULL REFERENCES fencepost.run (no),
    step text COLLATE "C" NOT NULL,
    item text COLLATE "C" NOT NULL,
    attempt bigint,
    kind text COLLATE "C" NOT NULL,
    says text COLLATE "C" CHECK (says IN ('applied', 'not applied', 'found', 'absent', 'inconclusive')),
    evidence text NOT NULL,
    lease text,
    generation bigint,
    current bigint NOT NULL CHECK (current IN (0, 1)),
    began_at bigint,
    seen_at bigint NOT NULL
);

-- A run's observations are loaded with it.
CREATE INDEX observation_of_run ON fencepost.observation (run);

-- A message to a run: kept, applied to a wait, or refused with a reason; the same id counts once.
CREATE TABLE fencepost.signal (
    no bigint GENERATED ALWAYS AS IDENTITY,
    run bigint NOT NULL REFERENCES fencepost.run (no),
    id text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    payload text NOT NULL,
    fingerprint text NOT NULL,
    sender text NOT NULL,
    state text COLLATE "C" NOT NULL CHECK (state IN ('kept', 'applied', 'refused')),
    reason text,
    position text COLLATE "C",
    sent_at bigint NOT NULL,
    closed_at bigint,
    PRIMARY KEY (run, id),
    CHECK ((state = 'kept') = (closed_at IS NULL)),
    CHECK (state <> 'applied' OR position IS NOT NULL),
    CHECK (state <> 'refused' OR reason IS NOT NULL)
) WITH (fillfactor = 80);

-- A run that begins to wait asks for what was kept; the signals of the past are not looked at.
CREATE INDEX signal_kept ON fencepost.signal (run, name) WHERE state = 'kept';

-- Who did what, why, and what it changed; chained by hash to the row before, which no two rows share.
CREATE TABLE fencepost.audit (
    no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at bigint NOT NULL,
    actor text NOT NULL,
    verb text NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    run_id text COLLATE "C" NOT NULL,
    step text,
    item text,
    reason text NOT NULL,
    outcome text COLLATE "C" NOT NULL CHECK (outcome IN ('done', 'refused')),
    before text NOT NULL,
    after text NOT NULL,
    previous text COLLATE "C" NOT NULL UNIQUE,
    hash text COLLATE "C" NOT NULL
);

-- The audit of one run is shown with it.
CREATE INDEX audit_of_run ON fencepost.audit (namespace, run_id);

CREATE FUNCTION fencepost.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% rows are append-only', TG_TABLE_NAME USING ERRCODE = 'integrity_constraint_violation';
END
$$;

CREATE TRIGGER observation_is_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON fencepost.observation
FOR EACH STATEMENT EXECUTE FUNCTION fencepost.refuse_change();

CREATE TRIGGER audit_is_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON fencepost.audit
FOR EACH STATEMENT EXECUTE FUNCTION fencepost.refuse_change();

-- A run that ends takes no signal any more; also of those that its owner has not heard of, none is left without a word.
CREATE FUNCTION fencepost.refuse_signals() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE fencepost.signal SET state = 'refused', reason = 'the run has ended', closed_at = new.ended_at
    WHERE run = new.no AND state = 'kept';
    RETURN NULL;
END
$$;

CREATE TRIGGER signal_is_not_left AFTER UPDATE OF ended_at ON fencepost.run
FOR EACH ROW WHEN (new.ended_at IS NOT NULL AND old.ended_at IS NULL)
EXECUTE FUNCTION fencepost.refuse_signals();

-- Ends a transaction in which a statement has changed fewer rows than it was given: the statements behind it, the
-- commit among them, are on their way already.
CREATE FUNCTION fencepost.all_of(changed bigint, given bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF changed <> given THEN
        RAISE EXCEPTION 'a guard refused: % of % rows', changed, given USING ERRCODE = 'FP001';
    END IF;
END
$$;
