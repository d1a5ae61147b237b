-- The ledger's tables, in a schema of their own. Instants are microseconds of the store's clock; payloads are canonical
-- JSON text. The lists in CHECKs are those of core/states.py; a test compares them. Texts that are looked up compare by
-- their bytes, so that no change of a system's sorting rules can break an index.

-- What this schema is: its marker and number.
CREATE TABLE fencepost.meta (
    name text COLLATE "C" NOT NULL PRIMARY KEY,
    value text NOT NULL
);

INSERT INTO fencepost.meta (name, value) VALUES ('marker', 'fencepost ledger'), ('schema', '1');

-- A life of the ledger since a restore; what happened between `lost_from` and `began_at` may be missing.
CREATE TABLE fencepost.epoch (
    number bigint NOT NULL PRIMARY KEY,
    lost_from bigint NOT NULL,
    began_at bigint NOT NULL,
    closed_at bigint
);

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
    margin bigint NOT NULL CHECK (margin >= 0),
    -- Which workflows its process knows: a run of another one waits for a worker that is not there.
    carries text NOT NULL DEFAULT '[]',
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
        'terminated', 'compensated', 'partly compensated', 'compensation failed', 'continued'
    )),
    generation bigint NOT NULL CHECK (generation >= 0),
    version bigint NOT NULL,
    lease text COLLATE "C" REFERENCES fencepost.lease (id),
    wake_at bigint,
    parent bigint REFERENCES fencepost.run (no),
    -- The parent's position that waits for this run; NULL for a detached child.
    parent_step text COLLATE "C",
    turn bigint NOT NULL DEFAULT 0 CHECK (turn >= 0),
    -- A child has ended while this run was owned: when it is given up, it is due at once.
    woken bigint NOT NULL DEFAULT 0 CHECK (woken IN (0, 1)),
    result text,
    error text,
    hold text,
    cancel text,
    delivered bigint NOT NULL DEFAULT 0,
    created_at bigint NOT NULL,
    changed_at bigint NOT NULL,
    ended_at bigint,
    -- Takeovers from workers that were lost, in a row, and how much of the run had been answered at the last of them.
    takeovers bigint NOT NULL DEFAULT 0 CHECK (takeovers >= 0),
    answers bigint NOT NULL DEFAULT 0,
    -- When what it held was removed: the row stays, so that nothing is ever started again under its id.
    purged_at bigint,
    -- What it keeps its place in line for: none begins before every earlier one of the same resource has ended.
    resource text COLLATE "C",
    -- The marks of what is contained and keeps it from going on; see `containment`.
    behind text COLLATE "C",
    -- The queue whose limits its claims keep, its key there, and how far it is put before others that are due.
    queue text COLLATE "C",
    queue_key text COLLATE "C",
    priority bigint NOT NULL DEFAULT 0,
    -- Of several starts in one queue with this id one counts, until it has ended or gives way.
    dedup text COLLATE "C",
    -- It has begun to go back, cancelled or compensated: another start of the same counts beside it from then on.
    gives_way bigint NOT NULL DEFAULT 0 CHECK (gives_way IN (0, 1)),
    -- When a run of a queue, or of a line, was claimed first: what the queue's rate counts, and who has begun in the line.
    began_at bigint,
    -- A turn of a run that continues as a new one is a row of its own; the last one is the run.
    UNIQUE (namespace, id, turn),
    -- Nothing that still moves loses what it needs.
    CHECK (purged_at IS NULL OR ended_at IS NOT NULL),
    -- Only a child has a place at which its parent waits for it.
    CHECK (parent_step IS NULL OR parent IS NOT NULL),
    -- What keeps a place in line is one effect, and goes on in no further turn.
    CHECK (resource IS NULL OR (turn = 0 AND state <> 'continued')),
    CHECK (state <> 'running' OR lease IS NOT NULL),
    CHECK (queue IS NOT NULL OR (queue_key IS NULL AND priority = 0 AND dedup IS NULL)),
    CHECK (began_at IS NULL OR queue IS NOT NULL OR resource IS NOT NULL),
    -- A place in a line and a place in a queue would each keep the other's waiting.
    CHECK (queue IS NULL OR resource IS NULL),
    -- Whoever waits behind something is owned by nobody, and has not ended.
    CHECK (behind IS NULL OR (lease IS NULL AND state IN ('waiting', 'cancelling', 'compensating'))),
    CHECK (lease IS NULL OR state IN ('running', 'cancelling', 'compensating')),
    CHECK (state <> 'ready' OR wake_at IS NOT NULL),
    CHECK (wake_at IS NULL OR state IN ('ready', 'running', 'waiting', 'cancelling', 'compensating')),
    CHECK ((state = 'held') = (hold IS NOT NULL)),
    CHECK ((state IN (
        'succeeded', 'failed', 'cancelled', 'terminated', 'compensated', 'partly compensated', 'compensation failed',
        'continued'
    )) = (ended_at IS NOT NULL)),
    CHECK (state <> 'succeeded' OR result IS NOT NULL),
    CHECK (state <> 'failed' OR error IS NOT NULL),
    CHECK (state NOT IN ('cancelling', 'cancelled') OR cancel IS NOT NULL)
) WITH (fillfactor = 70);

-- A claim takes unowned runs in the order in which they fall due; runs that wait for a signal alone, and those of queues,
-- are not in it.
CREATE INDEX run_due ON fencepost.run (wake_at) WHERE lease IS NULL AND wake_at IS NOT NULL AND queue IS NULL;

-- A claim, and a worker looking for its signals, go by owner; most runs have none.
CREATE INDEX run_owned ON fencepost.run (lease) WHERE lease IS NOT NULL;

-- A claim asks who stands before a run in its line; runs without a resource, and those that have ended, are not in it.
-- One that a person ended stays: while an operation of it is unknown it keeps its line.
CREATE INDEX run_in_line ON fencepost.run (namespace, resource, no)
    WHERE resource IS NOT NULL AND (ended_at IS NULL OR state = 'terminated');

-- And who else has begun: an earlier one that has ended may be let go on while a later one is at work.
CREATE INDEX run_begun_in_line ON fencepost.run (namespace, resource)
    WHERE resource IS NOT NULL AND began_at IS NOT NULL AND (ended_at IS NULL OR state = 'terminated');

-- A claim takes the runs of a queue by their priority.
CREATE INDEX run_queued ON fencepost.run (namespace, queue, priority DESC, wake_at)
    WHERE queue IS NOT NULL AND lease IS NULL AND wake_at IS NOT NULL;

-- Before those it takes what goes back.
CREATE INDEX run_going_back ON fencepost.run (namespace, queue)
    WHERE queue IS NOT NULL AND lease IS NULL AND wake_at IS NOT NULL AND state = 'compensating';

-- A claim counts the slots of a queue, and of a key in it, that are taken: by rows that somebody owns, so that none leaks.
CREATE INDEX run_in_slot ON fencepost.run (namespace, queue, queue_key) WHERE queue IS NOT NULL AND lease IS NOT NULL;

-- A claim counts how many runs of a queue have begun lately.
CREATE INDEX run_begun ON fencepost.run (namespace, queue, began_at) WHERE began_at IS NOT NULL;

-- Of several starts of the same thing in a queue only one goes on at a time. What goes back is not counted, or whoever
-- started the same meanwhile would keep it from being taken back.
CREATE UNIQUE INDEX run_once_in_queue ON fencepost.run (namespace, queue, dedup)
    WHERE dedup IS NOT NULL AND ended_at IS NULL AND gives_way = 0;

-- A start that was not the first one finds the other.
CREATE INDEX run_deduplicated ON fencepost.run (namespace, queue, dedup) WHERE dedup IS NOT NULL;

-- A person asks how many runs of each queue wait; those that have ended are not in it.
CREATE INDEX run_waits_in_queue ON fencepost.run (namespace, queue)
    WHERE queue IS NOT NULL AND lease IS NULL AND ended_at IS NULL;

-- A release looks for those that it lets go on; most often there are none.
CREATE INDEX run_behind ON fencepost.run (no) WHERE behind IS NOT NULL;

-- A person lists runs by state, newest first.
CREATE INDEX run_listed ON fencepost.run (namespace, state, no);

-- A parent asks for its children; most runs have none.
CREATE INDEX run_of_parent ON fencepost.run (parent) WHERE parent IS NOT NULL;

-- A child's end wakes its parent, in the commit that ends it, whoever ends it: at once where nobody owns the parent, else
-- when its owner gives it up. The parent is locked before it is read, so that one of the two sees what the other did;
-- whoever ends children has locked it already, by number with all the others (`lock_run`, `lock_runs`).
CREATE FUNCTION fencepost.wake_parent() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM no FROM fencepost.run WHERE no = new.parent FOR NO KEY UPDATE;
    UPDATE fencepost.run SET
        woken = (lease IS NOT NULL)::int,
        wake_at = CASE
            WHEN lease IS NULL AND state IN ('waiting', 'cancelling', 'compensating')
                THEN least(coalesce(wake_at, new.ended_at), new.ended_at)
            ELSE wake_at
        END,
        version = version + 1
    WHERE no = new.parent AND ended_at IS NULL;
    RETURN NULL;
END
$$;

CREATE TRIGGER run_wakes_parent AFTER UPDATE OF ended_at ON fencepost.run
FOR EACH ROW WHEN (
    new.parent_step IS NOT NULL AND new.ended_at IS NOT NULL AND old.ended_at IS NULL AND new.state <> 'continued'
)
EXECUTE FUNCTION fencepost.wake_parent();

-- So does it whoever waits for this end without being its parent: found by the name of the wait. Nobody has locked those
-- before; where two such ends meet in a circle, the server ends one of the transactions and it is done again.
CREATE FUNCTION fencepost.wake_waiting() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    waiting bigint[] := ARRAY(
        SELECT run FROM fencepost.step WHERE kind = 'wait' AND name = 'ended ' || new.id AND state = 'open'
    );
BEGIN
    IF waiting = '{}' THEN
        RETURN NULL;
    END IF;
    PERFORM no FROM fencepost.run WHERE no = ANY (waiting) ORDER BY no FOR NO KEY UPDATE;
    UPDATE fencepost.run SET
        woken = (lease IS NOT NULL)::int,
        wake_at = CASE
            WHEN lease IS NULL AND state IN ('waiting', 'cancelling', 'compensating')
                THEN least(coalesce(wake_at, new.ended_at), new.ended_at)
            ELSE wake_at
        END,
        version = version + 1
    WHERE no = ANY (waiting) AND namespace = new.namespace AND ended_at IS NULL;
    -- Whoever ends a run does not know of them, so nobody else tells their workers (`tell_others`).
    PERFORM pg_notify('fencepost', TG_TABLE_SCHEMA);
    RETURN NULL;
END
$$;

CREATE TRIGGER run_wakes_waiting AFTER UPDATE OF ended_at ON fencepost.run
FOR EACH ROW WHEN (new.ended_at IS NOT NULL AND old.ended_at IS NULL AND new.state <> 'continued')
EXECUTE FUNCTION fencepost.wake_waiting();

-- What is started at times: a schedule as the code last declared it, and how far it has come. Its row outlives the code.
CREATE TABLE fencepost.schedule (
    no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    -- The name that it was declared under before: workers of that code know it by this one.
    formerly text COLLATE "C",
    workflow text COLLATE "C" NOT NULL,
    workflow_version bigint NOT NULL,
    principal text,
    input text NOT NULL,
    fingerprint text NOT NULL,
    cron text COLLATE "C" NOT NULL,
    zone text COLLATE "C" NOT NULL,
    overlap text COLLATE "C" NOT NULL CHECK (overlap IN ('skip', 'queue', 'allow')),
    catch_up text COLLATE "C" NOT NULL CHECK (catch_up IN ('all', 'last', 'none')),
    catch_up_within bigint NOT NULL CHECK (catch_up_within >= 0),
    next_at bigint NOT NULL,
    last_at bigint,
    last_run bigint REFERENCES fencepost.run (no),
    -- Whether `next_at` waits until the run before it has ended.
    waits bigint NOT NULL DEFAULT 0 CHECK (waits IN (0, 1)),
    passed bigint NOT NULL DEFAULT 0 CHECK (passed >= 0),
    note text,
    paused_at bigint,
    declared_by text COLLATE "C" NOT NULL REFERENCES fencepost.lease (id),
    declared_at bigint NOT NULL,
    version bigint NOT NULL DEFAULT 0,
    changed_at bigint NOT NULL,
    UNIQUE (namespace, name),
    -- The instant that was started last is known together with its run.
    CHECK ((last_at IS NULL) = (last_run IS NULL)),
    -- Nothing waits without a run for which it does.
    CHECK (waits = 0 OR last_run IS NOT NULL)
);

-- Which worker lives have declared a schedule; one without a live one is an orphan, and starts nothing.
CREATE TABLE fencepost.schedule_carrier (
    schedule bigint NOT NULL REFERENCES fencepost.schedule (no),
    lease text COLLATE "C" NOT NULL REFERENCES fencepost.lease (id),
    PRIMARY KEY (schedule, lease)
);

-- A recorded position of a run that is not an effect. `no` tells in which order they were opened.
CREATE TABLE fencepost.step (
    no bigint GENERATED ALWAYS AS IDENTITY,
    run bigint NOT NULL REFERENCES fencepost.run (no),
    position text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL CHECK (
        kind IN (
            'model', 'read', 'compute', 'wait', 'sleep', 'child', 'compensate', 'forward', 'redecide', 'cancel', 'patch',
            'progress'
        )
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
    beaten_at bigint,
    progress text,
    PRIMARY KEY (run, position),
    CHECK ((state = 'open') = (closed_at IS NULL)),
    CHECK (beaten_at IS NULL OR kind = 'wait'),
    CHECK (progress IS NULL OR beaten_at IS NOT NULL),
    CHECK (state <> 'failed' OR error IS NOT NULL)
) WITH (fillfactor = 80);

-- An event may name what is waited for, and not the run; only waits are in it, and what it holds never changes.
CREATE INDEX step_waited_for ON fencepost.step (name) WHERE kind = 'wait';

-- One logical effect. `item` is '' where there is none. Its first attempt stands in the same row: nearly every effect
-- has no other, so that intent and permission are one row, and a success is one change of it.
CREATE TABLE fencepost.operation (
    no bigint GENERATED ALWAYS AS IDENTITY,
    run bigint NOT NULL REFERENCES fencepost.run (no),
    step text COLLATE "C" NOT NULL,
    item text COLLATE "C" NOT NULL,
    effect text NOT NULL,
    contract_version bigint NOT NULL,
    key text COLLATE "C" NOT NULL UNIQUE,
    key_scheme bigint NOT NULL,
    scope text NOT NULL,
    request text NOT NULL,
    fingerprint text NOT NULL,
    policy text,
    state text COLLATE "C" NOT NULL CHECK (
        state IN ('reserved', 'dispatched', 'unknown', 'succeeded', 'failed', 'cancelled')
    ),
    conflict bigint NOT NULL DEFAULT 0 CHECK (conflict IN (0, 1)),
    attempts bigint NOT NULL CHECK (attempts >= 0),
    lookups bigint NOT NULL DEFAULT 0,
    generation bigint NOT NULL,
    version bigint NOT NULL DEFAULT 0,
    compensates text,
    approval text COLLATE "C",
    reference text,
    result text,
    error text,
    delivered bigint,
    delivered_at bigint,
    not_before bigint,
    budget_from bigint NOT NULL,
    reserved_at bigint NOT NULL,
    changed_at bigint NOT NULL,
    first_token bigint,
    first_lease text,
    first_generation bigint,
    first_dispatched_at bigint,
    first_send_by bigint,
    first_span_ends_at bigint,
    first_outcome text COLLATE "C" CHECK (first_outcome IN ('applied', 'not applied', 'unresolved')),
    first_evidence text,
    first_sends bigint,
    first_settled_at bigint,
    -- Since when nobody knows whether it happened; a plain success leaves it as it is, and so its index.
    unknown_since bigint GENERATED ALWAYS AS (CASE WHEN state = 'unknown' THEN first_dispatched_at END) STORED,
    PRIMARY KEY (run, step, item),
    -- Nothing is sent, unknown or succeeded without a counted, timed dispatch.
    CHECK (state NOT IN ('dispatched', 'unknown', 'succeeded') OR attempts >= 1),
    CHECK ((attempts = 0) = (first_dispatched_at IS NULL)),
    CHECK (first_dispatched_at IS NULL OR (
        first_lease IS NOT NULL AND first_generation IS NOT NULL AND first_send_by IS NOT NULL
        AND first_span_ends_at IS NOT NULL AND first_outcome IS NOT NULL
    )),
    -- Nobody settles an attempt without saying what proves it.
    CHECK (coalesce(first_outcome, 'unresolved') = 'unresolved' OR (
        first_evidence IS NOT NULL AND first_settled_at IS NOT NULL
    )),
    CHECK ((delivered IS NULL) = (delivered_at IS NULL)),
    -- A failed operation says why.
    CHECK (state <> 'failed' OR error IS NOT NULL),
    -- An approval is used by a dispatch, in the same row, and by nothing less.
    CHECK (approval IS NULL OR attempts >= 1)
) WITH (fillfactor = 60);

-- An approval, by the position of its wait, is used once: whatever else would use it is not even written.
CREATE UNIQUE INDEX approval_used ON fencepost.operation (run, approval) WHERE approval IS NOT NULL;

-- What contradicts itself is looked for all the time, and nearly never there.
CREATE INDEX operation_conflict ON fencepost.operation (run) WHERE conflict = 1;

-- What is unknown is looked at first, the oldest before the others; a ledger that is well has none.
CREATE INDEX operation_unknown ON fencepost.operation (unknown_since) WHERE unknown_since IS NOT NULL;

-- A person who has the remote object's id looks for the run that made it; an effect without one is not in here.
CREATE INDEX operation_reference ON fencepost.operation (reference) WHERE reference IS NOT NULL;

-- A later dispatch of an operation; unresolved from the moment it may be sent, so its owner's death needs no write.
CREATE TABLE fencepost.attempt (
    run bigint NOT NULL REFERENCES fencepost.run (no),
    step text COLLATE "C" NOT NULL,
    item text COLLATE "C" NOT NULL,
    number bigint NOT NULL CHECK (number >= 2),
    token bigint,
    lease text NOT NULL,
    generation bigint NOT NULL,
    dispatched_at bigint NOT NULL,
    send_by bigint NOT NULL,
    span_ends_at bigint NOT NULL,
    outcome text COLLATE "C" NOT NULL DEFAULT 'unresolved' CHECK (
        outcome IN ('applied', 'not applied', 'unresolved')
    ),
    evidence text,
    sends bigint,
    settled_at bigint,
    PRIMARY KEY (run, step, item, number),
    -- Nobody settles an attempt without saying what proves it.
    CHECK (outcome = 'unresolved' OR (evidence IS NOT NULL AND settled_at IS NOT NULL))
);

-- The highest token issued for a resource at a target that compares tokens; runs that share the resource share it.
CREATE TABLE fencepost.token (
    resource text COLLATE "C" NOT NULL PRIMARY KEY,
    number bigint NOT NULL
);

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

-- A callback comes with a token, of which only the digest is known; most effects hand out none.
CREATE INDEX observation_callback ON fencepost.observation ((evidence::json ->> 'digest')) WHERE kind = 'callback';

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
    audited bigint NOT NULL DEFAULT 1 CHECK (audited IN (0, 1)),
    PRIMARY KEY (run, id),
    CHECK ((state = 'kept') = (closed_at IS NULL)),
    CHECK (state <> 'applied' OR position IS NOT NULL),
    CHECK (state <> 'refused' OR reason IS NOT NULL),
    -- Only what was refused as its run ended waits for its audit row.
    CHECK (audited = 1 OR state = 'refused')
) WITH (fillfactor = 80);

-- What a run's end has refused is audited soon after; nearly always there is nothing of the kind.
CREATE INDEX signal_unaudited ON fencepost.signal (run) WHERE audited = 0;

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

CREATE TRIGGER observation_is_not_changed BEFORE UPDATE OR TRUNCATE ON fencepost.observation
FOR EACH STATEMENT EXECUTE FUNCTION fencepost.refuse_change();

-- What was seen goes with the run that it was seen of, and not before.
CREATE FUNCTION fencepost.refuse_loss() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT purged_at FROM fencepost.run WHERE no = old.run) IS NULL THEN
        RAISE EXCEPTION 'observation rows are append-only' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN old;
END
$$;

CREATE TRIGGER observation_is_kept BEFORE DELETE ON fencepost.observation
FOR EACH ROW EXECUTE FUNCTION fencepost.refuse_loss();

CREATE TRIGGER audit_is_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON fencepost.audit
FOR EACH STATEMENT EXECUTE FUNCTION fencepost.refuse_change();

-- A run that ends takes no signal any more; also of those that its owner has not heard of, none is left without a word.
-- A trigger cannot chain an audit row, so it leaves that to `audit_left`.
CREATE FUNCTION fencepost.refuse_signals() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE fencepost.signal SET state = 'refused', reason = 'the run has ended', closed_at = new.ended_at, audited = 0
    WHERE run = new.no AND state = 'kept';
    RETURN NULL;
END
$$;

CREATE TRIGGER signal_is_not_left AFTER UPDATE OF ended_at ON fencepost.run
FOR EACH ROW WHEN (new.ended_at IS NOT NULL AND old.ended_at IS NULL AND new.state <> 'continued')
EXECUTE FUNCTION fencepost.refuse_signals();

-- What a turn has not taken is there for the next one.
CREATE FUNCTION fencepost.carry_signals() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE fencepost.signal SET run = new.no
    WHERE state = 'kept' AND run = (
        SELECT no FROM fencepost.run WHERE namespace = new.namespace AND id = new.id AND turn = new.turn - 1
    );
    RETURN NULL;
END
$$;

CREATE TRIGGER signal_is_carried AFTER INSERT ON fencepost.run
FOR EACH ROW WHEN (new.turn > 0) EXECUTE FUNCTION fencepost.carry_signals();

-- Ends a transaction in which a statement has changed fewer rows than it was given: the statements behind it, the
-- commit among them, are on their way already.
CREATE FUNCTION fencepost.all_of(changed bigint, given bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF changed <> given THEN
        RAISE EXCEPTION 'a guard refused: % of % rows', changed, given USING ERRCODE = 'FP001';
    END IF;
END
$$;

-- Whether an operation is unknown in a child attached to a run, or in one of its own: asked in the write that would let a
-- new effect of the run begin, and only where the run has such children. It sees what is committed when it is asked.
CREATE FUNCTION fencepost.unknown_below(above bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RETURN EXISTS (
        WITH RECURSIVE below (no) AS (
            SELECT run.no FROM fencepost.run WHERE parent = above AND parent_step IS NOT NULL
            UNION ALL
            SELECT run.no FROM below
            JOIN fencepost.run ON run.parent = below.no AND run.parent_step IS NOT NULL
        )
        SELECT 1 FROM below JOIN fencepost.operation ON operation.run = below.no WHERE operation.state = 'unknown'
    );
END
$$;

-- Who may do what in a namespace, as its code declared it last. Without a row everybody may do every verb.
CREATE TABLE fencepost.permission (
    namespace text COLLATE "C" NOT NULL PRIMARY KEY,
    policy text NOT NULL,
    declared_at bigint NOT NULL
);

-- A verb on a run that a first person asked for, and a second one has to confirm; what it is to do does not change.
CREATE TABLE fencepost.proposal (
    no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run bigint NOT NULL REFERENCES fencepost.run (no),
    verb text NOT NULL,
    arguments text NOT NULL,
    digest text COLLATE "C" NOT NULL,
    -- The run's version that the first person decided about: confirmed is what they saw, or nothing.
    seen bigint NOT NULL,
    reason text NOT NULL,
    proposed_by text NOT NULL,
    proposed_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    state text COLLATE "C" NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'confirmed', 'declined', 'expired')),
    closed_by text,
    closed_at bigint,
    CHECK (expires_at > proposed_at),
    CHECK ((state = 'open') = (closed_at IS NULL)),
    -- A person closes it, unless its time does.
    CHECK ((state IN ('confirmed', 'declined')) = (closed_by IS NOT NULL)),
    -- Two persons are two.
    CHECK (state <> 'confirmed' OR closed_by <> proposed_by)
);

-- The same click counts once; and what is open is what a person lists.
CREATE UNIQUE INDEX proposal_open ON fencepost.proposal (run, digest) WHERE state = 'open';

-- A purge looks for what was proposed for a run.
CREATE INDEX proposal_of_run ON fencepost.proposal (run);

-- What nothing new is sent toward: by a person's order, or because a breaker has opened. Each dispatch looks here, so it
-- is small, and nearly always empty. Whoever adds to it waits until the dispatches under way are committed, and keeps
-- the next ones waiting (`lock_containment`, `lock_runs`): what is sent afterwards has seen the row.
CREATE TABLE fencepost.containment (
    -- As it stands among what a dispatch goes toward.
    mark text COLLATE "C" NOT NULL PRIMARY KEY,
    namespace text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL CHECK (kind IN ('target', 'resource', 'tenant', 'workflow', 'credential')),
    name text NOT NULL,
    actor text NOT NULL,
    reason text NOT NULL,
    at bigint NOT NULL,
    -- Of a breaker: how long it stays shut before one run is let through to see, when that is, which run, and until when.
    cool_down bigint CHECK (cool_down > 0),
    probe_at bigint,
    probe_run bigint REFERENCES fencepost.run (no),
    probe_until bigint,
    -- Only a breaker opens and closes by itself.
    CHECK ((cool_down IS NULL) = (probe_at IS NULL)),
    CHECK ((probe_run IS NULL) = (probe_until IS NULL)),
    -- Nobody is let through what a person has contained.
    CHECK (probe_run IS NULL OR cool_down IS NOT NULL)
);

-- How many runs of a queue may be in work at a time, and begin in which time; and whether a person has paused it. What is
-- in work is counted from the runs' rows.
CREATE TABLE fencepost.queue (
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    concurrency bigint CHECK (concurrency >= 1),
    per_key bigint CHECK (per_key >= 1),
    -- At most so many begin within so many microseconds.
    rate bigint CHECK (rate >= 1),
    rate_within bigint CHECK (rate_within >= 1),
    paused_at bigint,
    paused_by text,
    paused_because text,
    version bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (namespace, name),
    CHECK ((rate IS NULL) = (rate_within IS NULL)),
    -- Whoever pauses says who and why.
    CHECK ((paused_at IS NULL) = (paused_by IS NULL) AND (paused_at IS NULL) = (paused_because IS NULL))
);

-- A value too large for its row, in pieces; the row holds its digest. Of a run by its id, since an input is kept before
-- its run has a number, and each of a run's turns has one of its own.
CREATE TABLE fencepost.piece (
    namespace text COLLATE "C" NOT NULL,
    run_id text COLLATE "C" NOT NULL,
    digest text COLLATE "C" NOT NULL,
    number bigint NOT NULL CHECK (number >= 0),
    -- What is empty is no piece of anything.
    text text NOT NULL CHECK (text <> ''),
    PRIMARY KEY (namespace, run_id, digest, number)
);

-- One verb that a person does to many runs; what it is to do does not change.
CREATE TABLE fencepost.bulk (
    no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace text COLLATE "C" NOT NULL,
    verb text NOT NULL,
    arguments text NOT NULL,
    digest text COLLATE "C" NOT NULL,
    actor text NOT NULL,
    reason text NOT NULL,
    state text COLLATE "C" NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'paused', 'done')),
    started_at bigint NOT NULL,
    closed_at bigint,
    version bigint NOT NULL DEFAULT 0,
    CHECK ((state = 'done') = (closed_at IS NOT NULL))
);

-- The same click counts once while it is at work; and what is open is what a person lists.
CREATE UNIQUE INDEX bulk_open ON fencepost.bulk (namespace, digest) WHERE state <> 'done';

-- A run that a job is meant for, as it was seen, and what became of it: written with the verb, so that none is done twice.
CREATE TABLE fencepost.bulk_run (
    bulk bigint NOT NULL REFERENCES fencepost.bulk (no),
    place bigint NOT NULL,
    run bigint NOT NULL REFERENCES fencepost.run (no),
    seen bigint NOT NULL,
    was text NOT NULL,
    outcome text COLLATE "C" CHECK (outcome IN ('done', 'refused')),
    says text,
    closed_at bigint,
    PRIMARY KEY (bulk, place),
    UNIQUE (bulk, run),
    CHECK ((outcome IS NULL) = (closed_at IS NULL)),
    -- Whoever is refused is told why.
    CHECK ((outcome = 'refused') = (says IS NOT NULL))
);

-- A purge looks for a run in jobs.
CREATE INDEX bulk_run_of_run ON fencepost.bulk_run (run);

-- By what services and people call over HTTP. Of a token only its digest is here, so that whoever reads the ledger, or a
-- copy of it, can call with none.
CREATE TABLE fencepost.api_token (
    no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace text COLLATE "C" NOT NULL,
    -- Under whose name everything is done that is done with it.
    person text NOT NULL CHECK (person <> ''),
    -- One that may do nothing is none.
    roles text NOT NULL CHECK (roles LIKE '["%'),
    digest text COLLATE "C" NOT NULL UNIQUE CHECK (length(digest) = 64),
    made_by text NOT NULL,
    made_at bigint NOT NULL,
    expires_at bigint CHECK (expires_at > made_at),
    revoked_by text,
    revoked_at bigint,
    -- Whoever revokes one is named.
    CHECK ((revoked_at IS NULL) = (revoked_by IS NULL))
);

-- Who comes to the console with a password, as a hash that is slow to guess.
CREATE TABLE fencepost.account (
    namespace text COLLATE "C" NOT NULL,
    person text COLLATE "C" NOT NULL CHECK (person <> ''),
    roles text NOT NULL CHECK (roles LIKE '["%'),
    password text NOT NULL CHECK (password LIKE '$argon2id$%'),
    changed_at bigint NOT NULL,
    PRIMARY KEY (namespace, person)
);

-- Links by which somebody comes in once. Of a link only its digest is here.
CREATE TABLE fencepost.invitation (
    digest text COLLATE "C" PRIMARY KEY CHECK (length(digest) = 64),
    namespace text COLLATE "C" NOT NULL,
    person text COLLATE "C" NOT NULL CHECK (person <> ''),
    roles text NOT NULL CHECK (roles LIKE '["%'),
    made_by text NOT NULL,
    made_at bigint NOT NULL,
    -- One that never ends could lie about for ever.
    expires_at bigint NOT NULL CHECK (expires_at > made_at),
    used_at bigint CHECK (used_at >= made_at)
);

-- Who has come in. Of what their browser sends only the digest is here, so that whoever reads the ledger, or a copy of
-- it, is nobody.
CREATE TABLE fencepost.session (
    digest text COLLATE "C" PRIMARY KEY CHECK (length(digest) = 64),
    namespace text COLLATE "C" NOT NULL,
    person text COLLATE "C" NOT NULL CHECK (person <> ''),
    roles text NOT NULL CHECK (roles LIKE '["%'),
    began_at bigint NOT NULL,
    seen_at bigint NOT NULL CHECK (seen_at >= began_at),
    ended_at bigint
);

-- Whoever is shut out is shut out of each of their sessions.
CREATE INDEX session_of_person ON fencepost.session (namespace, person) WHERE ended_at IS NULL;
