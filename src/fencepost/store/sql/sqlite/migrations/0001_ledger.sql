-- The ledger's tables. Instants are microseconds of the store's clock; payloads are canonical JSON text.
-- The lists in CHECKs are those of core/states.py; a test compares them.

-- "FNCP", and this migration's number: what a file is can be told before any table is read.
PRAGMA application_id = 1179534160;
PRAGMA user_version = 1;

-- What this file is: its marker, schema version and epoch.
CREATE TABLE meta (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO meta (name, value) VALUES ('marker', 'fencepost ledger'), ('schema', '1');

-- A life of the ledger since a restore; what happened between `lost_from` and `began_at` may be missing.
CREATE TABLE epoch (
    number INTEGER PRIMARY KEY,
    lost_from INTEGER NOT NULL,
    began_at INTEGER NOT NULL,
    closed_at INTEGER
) STRICT;

-- One worker life's claim to be alive; never reused.
CREATE TABLE lease (
    id TEXT NOT NULL PRIMARY KEY,
    host TEXT NOT NULL,
    boot_id TEXT NOT NULL,
    pid INTEGER NOT NULL,
    process_started INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('live', 'expired', 'ended')),
    taken_at INTEGER NOT NULL,
    renewed_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    closed_at INTEGER,
    margin INTEGER NOT NULL CHECK (margin >= 0),
    -- Which workflows its process knows: a run of another one waits for a worker that is not there.
    carries TEXT NOT NULL DEFAULT '[]',
    CHECK ((state = 'live') = (closed_at IS NULL))
) STRICT, WITHOUT ROWID;

-- A claim looks for overdue leases; those that are over stay for the record and are not looked at again.
CREATE INDEX lease_live ON lease (expires_at) WHERE state = 'live';

-- One execution of a workflow; `no` is what the other tables refer to.
CREATE TABLE run (
    no INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    workflow TEXT NOT NULL,
    workflow_version INTEGER NOT NULL,
    principal TEXT,
    input TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN (
        'ready', 'running', 'waiting', 'held', 'cancelling', 'compensating', 'succeeded', 'failed', 'cancelled',
        'terminated', 'compensated', 'partly compensated', 'compensation failed', 'continued'
    )),
    generation INTEGER NOT NULL CHECK (generation >= 0),
    version INTEGER NOT NULL,
    lease TEXT REFERENCES lease (id),
    wake_at INTEGER,
    parent INTEGER REFERENCES run (no),
    -- The parent's position that waits for this run; NULL for a detached child.
    parent_step TEXT,
    turn INTEGER NOT NULL DEFAULT 0 CHECK (turn >= 0),
    -- A child has ended while this run was owned: when it is given up, it is due at once.
    woken INTEGER NOT NULL DEFAULT 0 CHECK (woken IN (0, 1)),
    result TEXT,
    error TEXT,
    hold TEXT,
    cancel TEXT,
    delivered INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    ended_at INTEGER,
    -- Takeovers from workers that were lost, in a row, and how much of the run had been answered at the last of them.
    takeovers INTEGER NOT NULL DEFAULT 0 CHECK (takeovers >= 0),
    answers INTEGER NOT NULL DEFAULT 0,
    -- When what it held was removed: the row stays, so that nothing is ever started again under its id.
    purged_at INTEGER,
    -- What it keeps its place in line for: none begins before every earlier one of the same resource has ended.
    resource TEXT,
    -- The marks of what is contained and keeps it from going on; see `containment`.
    behind TEXT,
    -- The queue whose limits its claims keep, its key there, and how far it is put before others that are due.
    queue TEXT,
    queue_key TEXT,
    priority INTEGER NOT NULL DEFAULT 0,
    -- Of several starts in one queue with this id one counts, until it has ended or gives way.
    dedup TEXT,
    -- It has begun to go back, cancelled or compensated: another start of the same counts beside it from then on.
    gives_way INTEGER NOT NULL DEFAULT 0 CHECK (gives_way IN (0, 1)),
    -- When a run of a queue, or of a line, was claimed first: what the queue's rate counts, and who has begun in the line.
    began_at INTEGER,
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
) STRICT;

-- A claim takes unowned runs in the order in which they fall due; runs that wait for a signal alone, and those of queues,
-- are not in it.
CREATE INDEX run_due ON run (wake_at) WHERE lease IS NULL AND wake_at IS NOT NULL AND queue IS NULL;

-- A claim, and a worker looking for its signals, go by owner; most runs have none.
CREATE INDEX run_owned ON run (lease) WHERE lease IS NOT NULL;

-- A claim asks who stands before a run in its line; runs without a resource, and those that have ended, are not in it.
-- One that a person ended stays: while an operation of it is unknown it keeps its line.
CREATE INDEX run_in_line ON run (namespace, resource, no)
    WHERE resource IS NOT NULL AND (ended_at IS NULL OR state = 'terminated');

-- And who else has begun: an earlier one that has ended may be let go on while a later one is at work.
CREATE INDEX run_begun_in_line ON run (namespace, resource)
    WHERE resource IS NOT NULL AND began_at IS NOT NULL AND (ended_at IS NULL OR state = 'terminated');

-- A claim takes the runs of a queue by their priority.
CREATE INDEX run_queued ON run (namespace, queue, priority DESC, wake_at)
    WHERE queue IS NOT NULL AND lease IS NULL AND wake_at IS NOT NULL;

-- Before those it takes what goes back.
CREATE INDEX run_going_back ON run (namespace, queue)
    WHERE queue IS NOT NULL AND lease IS NULL AND wake_at IS NOT NULL AND state = 'compensating';

-- A claim counts the slots of a queue, and of a key in it, that are taken: by rows that somebody owns, so that none leaks.
CREATE INDEX run_in_slot ON run (namespace, queue, queue_key) WHERE queue IS NOT NULL AND lease IS NOT NULL;

-- A claim counts how many runs of a queue have begun lately.
CREATE INDEX run_begun ON run (namespace, queue, began_at) WHERE began_at IS NOT NULL;

-- Of several starts of the same thing in a queue only one goes on at a time. What goes back is not counted, or whoever
-- started the same meanwhile would keep it from being taken back.
CREATE UNIQUE INDEX run_once_in_queue ON run (namespace, queue, dedup)
    WHERE dedup IS NOT NULL AND ended_at IS NULL AND gives_way = 0;

-- A start that was not the first one finds the other.
CREATE INDEX run_deduplicated ON run (namespace, queue, dedup) WHERE dedup IS NOT NULL;

-- A person asks how many runs of each queue wait; those that have ended are not in it.
CREATE INDEX run_waits_in_queue ON run (namespace, queue)
    WHERE queue IS NOT NULL AND lease IS NULL AND ended_at IS NULL;

-- A release looks for those that it lets go on; most often there are none.
CREATE INDEX run_behind ON run (no) WHERE behind IS NOT NULL;

-- A person lists runs by state, newest first.
CREATE INDEX run_listed ON run (namespace, state, no);

-- A parent asks for its children; most runs have none.
CREATE INDEX run_of_parent ON run (parent) WHERE parent IS NOT NULL;

-- A child's end wakes its parent, in the commit that ends it, whoever ends it: at once where nobody owns the parent, else
-- when its owner gives it up.
CREATE TRIGGER run_wakes_parent AFTER UPDATE OF ended_at ON run
WHEN new.parent_step IS NOT NULL AND new.ended_at IS NOT NULL AND old.ended_at IS NULL AND new.state <> 'continued'
BEGIN
    UPDATE run SET
        woken = lease IS NOT NULL,
        wake_at = CASE
            WHEN lease IS NULL AND state IN ('waiting', 'cancelling', 'compensating')
                THEN min(coalesce(wake_at, new.ended_at), new.ended_at)
            ELSE wake_at
        END,
        version = version + 1
    WHERE no = new.parent AND ended_at IS NULL;
END;

-- So does it whoever waits for this end without being its parent: found by the name of the wait.
CREATE TRIGGER run_wakes_waiting AFTER UPDATE OF ended_at ON run
WHEN new.ended_at IS NOT NULL AND old.ended_at IS NULL AND new.state <> 'continued'
BEGIN
    UPDATE run SET
        woken = lease IS NOT NULL,
        wake_at = CASE
            WHEN lease IS NULL AND state IN ('waiting', 'cancelling', 'compensating')
                THEN min(coalesce(wake_at, new.ended_at), new.ended_at)
            ELSE wake_at
        END,
        version = version + 1
    WHERE namespace = new.namespace AND ended_at IS NULL AND no IN (
        SELECT run FROM step WHERE kind = 'wait' AND name = 'ended ' || new.id AND state = 'open'
    );
END;

-- What is started at times: a schedule as the code last declared it, and how far it has come. Its row outlives the code.
CREATE TABLE schedule (
    no INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    -- The name that it was declared under before: workers of that code know it by this one.
    formerly TEXT,
    workflow TEXT NOT NULL,
    workflow_version INTEGER NOT NULL,
    principal TEXT,
    input TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    cron TEXT NOT NULL,
    zone TEXT NOT NULL,
    overlap TEXT NOT NULL CHECK (overlap IN ('skip', 'queue', 'allow')),
    catch_up TEXT NOT NULL CHECK (catch_up IN ('all', 'last', 'none')),
    catch_up_within INTEGER NOT NULL CHECK (catch_up_within >= 0),
    next_at INTEGER NOT NULL,
    last_at INTEGER,
    last_run INTEGER REFERENCES run (no),
    -- Whether `next_at` waits until the run before it has ended.
    waits INTEGER NOT NULL DEFAULT 0 CHECK (waits IN (0, 1)),
    passed INTEGER NOT NULL DEFAULT 0 CHECK (passed >= 0),
    note TEXT,
    paused_at INTEGER,
    declared_by TEXT NOT NULL REFERENCES lease (id),
    declared_at INTEGER NOT NULL,
    version INTEGER NOT NULL DEFAULT 0,
    changed_at INTEGER NOT NULL,
    UNIQUE (namespace, name),
    -- The instant that was started last is known together with its run.
    CHECK ((last_at IS NULL) = (last_run IS NULL)),
    -- Nothing waits without a run for which it does.
    CHECK (waits = 0 OR last_run IS NOT NULL)
) STRICT;

-- Which worker lives have declared a schedule; one without a live one is an orphan, and starts nothing.
CREATE TABLE schedule_carrier (
    schedule INTEGER NOT NULL REFERENCES schedule (no),
    lease TEXT NOT NULL REFERENCES lease (id),
    PRIMARY KEY (schedule, lease)
) STRICT, WITHOUT ROWID;

-- A recorded position of a run that is not an effect.
CREATE TABLE step (
    run INTEGER NOT NULL REFERENCES run (no),
    position TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (
        kind IN (
            'model', 'read', 'compute', 'wait', 'sleep', 'child', 'compensate', 'forward', 'redecide', 'cancel', 'patch',
            'progress'
        )
    ),
    name TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    version INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('open', 'done', 'failed', 'cancelled')),
    request TEXT,
    detail TEXT,
    result TEXT,
    error TEXT,
    delivered INTEGER,
    due_at INTEGER,
    opened_at INTEGER NOT NULL,
    closed_at INTEGER,
    beaten_at INTEGER,
    progress TEXT,
    PRIMARY KEY (run, position),
    CHECK ((state = 'open') = (closed_at IS NULL)),
    CHECK (beaten_at IS NULL OR kind = 'wait'),
    CHECK (progress IS NULL OR beaten_at IS NOT NULL),
    CHECK (state <> 'failed' OR error IS NOT NULL)
) STRICT;

-- An event may name what is waited for, and not the run; only waits are in it, and what it holds never changes.
CREATE INDEX step_waited_for ON step (name) WHERE kind = 'wait';

-- One logical effect. `item` is '' where there is none. Its first attempt stands in the same row: nearly every effect
-- has no other, so that intent and permission are one row, and a success is one change of it.
CREATE TABLE operation (
    run INTEGER NOT NULL REFERENCES run (no),
    step TEXT NOT NULL,
    item TEXT NOT NULL,
    effect TEXT NOT NULL,
    contract_version INTEGER NOT NULL,
    key TEXT NOT NULL UNIQUE,
    key_scheme INTEGER NOT NULL,
    scope TEXT NOT NULL,
    request TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    policy TEXT,
    state TEXT NOT NULL CHECK (state IN ('reserved', 'dispatched', 'unknown', 'succeeded', 'failed', 'cancelled')),
    conflict INTEGER NOT NULL DEFAULT 0 CHECK (conflict IN (0, 1)),
    attempts INTEGER NOT NULL CHECK (attempts >= 0),
    lookups INTEGER NOT NULL DEFAULT 0,
    generation INTEGER NOT NULL,
    version INTEGER NOT NULL DEFAULT 0,
    compensates TEXT,
    approval TEXT,
    reference TEXT,
    result TEXT,
    error TEXT,
    delivered INTEGER,
    delivered_at INTEGER,
    not_before INTEGER,
    budget_from INTEGER NOT NULL,
    reserved_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    first_token INTEGER,
    first_lease TEXT,
    first_generation INTEGER,
    first_dispatched_at INTEGER,
    first_send_by INTEGER,
    first_span_ends_at INTEGER,
    first_outcome TEXT CHECK (first_outcome IN ('applied', 'not applied', 'unresolved')),
    first_evidence TEXT,
    first_sends INTEGER,
    first_settled_at INTEGER,
    -- Since when nobody knows whether it happened; a plain success leaves it as it is, and so its index.
    unknown_since INTEGER GENERATED ALWAYS AS (CASE WHEN state = 'unknown' THEN first_dispatched_at END) VIRTUAL,
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
) STRICT;

-- An approval, by the position of its wait, is used once: whatever else would use it is not even written.
CREATE UNIQUE INDEX approval_used ON operation (run, approval) WHERE approval IS NOT NULL;

-- What contradicts itself is looked for all the time, and nearly never there.
CREATE INDEX operation_conflict ON operation (run) WHERE conflict = 1;

-- What is unknown is looked at first, the oldest before the others; a ledger that is well has none.
CREATE INDEX operation_unknown ON operation (unknown_since) WHERE unknown_since IS NOT NULL;

-- A person who has the remote object's id looks for the run that made it; an effect without one is not in here.
CREATE INDEX operation_reference ON operation (reference) WHERE reference IS NOT NULL;

-- A later dispatch of an operation; unresolved from the moment it may be sent, so its owner's death needs no write.
CREATE TABLE attempt (
    run INTEGER NOT NULL REFERENCES run (no),
    step TEXT NOT NULL,
    item TEXT NOT NULL,
    number INTEGER NOT NULL CHECK (number >= 2),
    token INTEGER,
    lease TEXT NOT NULL,
    generation INTEGER NOT NULL,
    dispatched_at INTEGER NOT NULL,
    send_by INTEGER NOT NULL,
    span_ends_at INTEGER NOT NULL,
    outcome TEXT NOT NULL DEFAULT 'unresolved' CHECK (outcome IN ('applied', 'not applied', 'unresolved')),
    evidence TEXT,
    sends INTEGER,
    settled_at INTEGER,
    PRIMARY KEY (run, step, item, number),
    -- Nobody settles an attempt without saying what proves it.
    CHECK (outcome = 'unresolved' OR (evidence IS NOT NULL AND settled_at IS NOT NULL))
) STRICT, WITHOUT ROWID;

-- The highest token issued for a resource at a target that compares tokens; runs that share the resource share it.
CREATE TABLE token (
    resource TEXT NOT NULL PRIMARY KEY,
    number INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Something seen, by whoever saw it, current or stale.
CREATE TABLE observation (
    no INTEGER PRIMARY KEY,
    run INTEGER NOT NULL REFERENCES run (no),
    step TEXT NOT NULL,
    item TEXT NOT NULL,
    attempt INTEGER,
    kind TEXT NOT NULL,
    says TEXT CHECK (says IN ('applied', 'not applied', 'found', 'absent', 'inconclusive')),
    evidence TEXT NOT NULL,
    lease TEXT,
    generation INTEGER,
    current INTEGER NOT NULL CHECK (current IN (0, 1)),
    began_at INTEGER,
    seen_at INTEGER NOT NULL
) STRICT;

-- A run's observations are loaded with it.
CREATE INDEX observation_of_run ON observation (run);

-- A callback comes with a token, of which only the digest is known; most effects hand out none.
CREATE INDEX observation_callback ON observation (json_extract(evidence, '$.digest')) WHERE kind = 'callback';

-- What was seen goes with the run that it was seen of, and not before.
CREATE TRIGGER observation_is_kept BEFORE DELETE ON observation
WHEN (SELECT purged_at FROM run WHERE no = old.run) IS NULL
BEGIN
    SELECT RAISE(ABORT, 'observations are append-only');
END;

CREATE TRIGGER observation_is_not_changed BEFORE UPDATE ON observation
BEGIN
    SELECT RAISE(ABORT, 'observations are append-only');
END;

-- A message to a run: kept, applied to a wait, or refused with a reason; the same id counts once.
CREATE TABLE signal (
    run INTEGER NOT NULL REFERENCES run (no),
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    payload TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    sender TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('kept', 'applied', 'refused')),
    reason TEXT,
    position TEXT,
    sent_at INTEGER NOT NULL,
    closed_at INTEGER,
    audited INTEGER NOT NULL DEFAULT 1 CHECK (audited IN (0, 1)),
    PRIMARY KEY (run, id),
    CHECK ((state = 'kept') = (closed_at IS NULL)),
    CHECK (state <> 'applied' OR position IS NOT NULL),
    CHECK (state <> 'refused' OR reason IS NOT NULL),
    -- Only what was refused as its run ended waits for its audit row.
    CHECK (audited = 1 OR state = 'refused')
) STRICT;

-- What a run's end has refused is audited soon after; nearly always there is nothing of the kind.
CREATE INDEX signal_unaudited ON signal (run) WHERE audited = 0;

-- A run that begins to wait asks for what was kept; the signals of the past are not looked at.
CREATE INDEX signal_kept ON signal (run, name) WHERE state = 'kept';

-- A run that ends takes no signal any more; also of those that its owner has not heard of, none is left without a word.
-- A trigger cannot chain an audit row, so it leaves that to `audit_left`.
CREATE TRIGGER signal_is_not_left AFTER UPDATE OF ended_at ON run
WHEN new.ended_at IS NOT NULL AND old.ended_at IS NULL AND new.state <> 'continued'
BEGIN
    UPDATE signal SET state = 'refused', reason = 'the run has ended', closed_at = new.ended_at, audited = 0
    WHERE run = new.no AND state = 'kept';
END;

-- What a turn has not taken is there for the next one.
CREATE TRIGGER signal_is_carried AFTER INSERT ON run WHEN new.turn > 0
BEGIN
    UPDATE signal SET run = new.no
    WHERE state = 'kept' AND run = (
        SELECT no FROM run WHERE namespace = new.namespace AND id = new.id AND turn = new.turn - 1
    );
END;

-- Who did what, why, and what it changed; chained by hash to the row before.
CREATE TABLE audit (
    no INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    verb TEXT NOT NULL,
    namespace TEXT NOT NULL,
    run_id TEXT NOT NULL,
    step TEXT,
    item TEXT,
    reason TEXT NOT NULL,
    outcome TEXT NOT NULL CHECK (outcome IN ('done', 'refused')),
    before TEXT NOT NULL,
    after TEXT NOT NULL,
    previous TEXT NOT NULL,
    hash TEXT NOT NULL
) STRICT;

-- The audit of one run is shown with it.
CREATE INDEX audit_of_run ON audit (namespace, run_id);

CREATE TRIGGER audit_is_kept BEFORE DELETE ON audit
BEGIN
    SELECT RAISE(ABORT, 'audit rows are append-only');
END;

CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
BEGIN
    SELECT RAISE(ABORT, 'audit rows are append-only');
END;

-- Who may do what in a namespace, as its code declared it last. Without a row everybody may do every verb.
CREATE TABLE permission (
    namespace TEXT NOT NULL PRIMARY KEY,
    policy TEXT NOT NULL,
    declared_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- A verb on a run that a first person asked for, and a second one has to confirm; what it is to do does not change.
CREATE TABLE proposal (
    no INTEGER PRIMARY KEY,
    run INTEGER NOT NULL REFERENCES run (no),
    verb TEXT NOT NULL,
    arguments TEXT NOT NULL,
    digest TEXT NOT NULL,
    -- The run's version that the first person decided about: confirmed is what they saw, or nothing.
    seen INTEGER NOT NULL,
    reason TEXT NOT NULL,
    proposed_by TEXT NOT NULL,
    proposed_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'confirmed', 'declined', 'expired')),
    closed_by TEXT,
    closed_at INTEGER,
    CHECK (expires_at > proposed_at),
    CHECK ((state = 'open') = (closed_at IS NULL)),
    -- A person closes it, unless its time does.
    CHECK ((state IN ('confirmed', 'declined')) = (closed_by IS NOT NULL)),
    -- Two persons are two.
    CHECK (state <> 'confirmed' OR closed_by <> proposed_by)
) STRICT;

-- The same click counts once; and what is open is what a person lists.
CREATE UNIQUE INDEX proposal_open ON proposal (run, digest) WHERE state = 'open';

-- A purge looks for what was proposed for a run.
CREATE INDEX proposal_of_run ON proposal (run);

-- What nothing new is sent toward: by a person's order, or because a breaker has opened. Each dispatch looks here, so it
-- is small, and nearly always empty.
CREATE TABLE containment (
    -- As it stands among what a dispatch goes toward.
    mark TEXT NOT NULL PRIMARY KEY,
    namespace TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('target', 'resource', 'tenant', 'workflow', 'credential')),
    name TEXT NOT NULL,
    actor TEXT NOT NULL,
    reason TEXT NOT NULL,
    at INTEGER NOT NULL,
    -- Of a breaker: how long it stays shut before one run is let through to see, when that is, which run, and until when.
    cool_down INTEGER CHECK (cool_down > 0),
    probe_at INTEGER,
    probe_run INTEGER REFERENCES run (no),
    probe_until INTEGER,
    -- Only a breaker opens and closes by itself.
    CHECK ((cool_down IS NULL) = (probe_at IS NULL)),
    CHECK ((probe_run IS NULL) = (probe_until IS NULL)),
    -- Nobody is let through what a person has contained.
    CHECK (probe_run IS NULL OR cool_down IS NOT NULL)
) STRICT, WITHOUT ROWID;

-- How many runs of a queue may be in work at a time, and begin in which time; and whether a person has paused it. What is
-- in work is counted from the runs' rows.
CREATE TABLE queue (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    concurrency INTEGER CHECK (concurrency >= 1),
    per_key INTEGER CHECK (per_key >= 1),
    -- At most so many begin within so many microseconds.
    rate INTEGER CHECK (rate >= 1),
    rate_within INTEGER CHECK (rate_within >= 1),
    paused_at INTEGER,
    paused_by TEXT,
    paused_because TEXT,
    version INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (namespace, name),
    CHECK ((rate IS NULL) = (rate_within IS NULL)),
    -- Whoever pauses says who and why.
    CHECK ((paused_at IS NULL) = (paused_by IS NULL) AND (paused_at IS NULL) = (paused_because IS NULL))
) STRICT, WITHOUT ROWID;

-- A value too large for its row, in pieces; the row holds its digest. Of a run by its id, since an input is kept before
-- its run has a number, and each of a run's turns has one of its own.
CREATE TABLE piece (
    namespace TEXT NOT NULL,
    run_id TEXT NOT NULL,
    digest TEXT NOT NULL,
    number INTEGER NOT NULL CHECK (number >= 0),
    -- What is empty is no piece of anything.
    text TEXT NOT NULL CHECK (text <> ''),
    PRIMARY KEY (namespace, run_id, digest, number)
) STRICT;

-- One verb that a person does to many runs; what it is to do does not change.
CREATE TABLE bulk (
    no INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    verb TEXT NOT NULL,
    arguments TEXT NOT NULL,
    digest TEXT NOT NULL,
    actor TEXT NOT NULL,
    reason TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'paused', 'done')),
    started_at INTEGER NOT NULL,
    closed_at INTEGER,
    version INTEGER NOT NULL DEFAULT 0,
    CHECK ((state = 'done') = (closed_at IS NOT NULL))
) STRICT;

-- The same click counts once while it is at work; and what is open is what a person lists.
CREATE UNIQUE INDEX bulk_open ON bulk (namespace, digest) WHERE state <> 'done';

-- A run that a job is meant for, as it was seen, and what became of it: written with the verb, so that none is done twice.
CREATE TABLE bulk_run (
    bulk INTEGER NOT NULL REFERENCES bulk (no),
    place INTEGER NOT NULL,
    run INTEGER NOT NULL REFERENCES run (no),
    seen INTEGER NOT NULL,
    was TEXT NOT NULL,
    outcome TEXT CHECK (outcome IN ('done', 'refused')),
    says TEXT,
    closed_at INTEGER,
    PRIMARY KEY (bulk, place),
    UNIQUE (bulk, run),
    CHECK ((outcome IS NULL) = (closed_at IS NULL)),
    -- Whoever is refused is told why.
    CHECK ((outcome = 'refused') = (says IS NOT NULL))
) STRICT, WITHOUT ROWID;

-- A purge looks for a run in jobs.
CREATE INDEX bulk_run_of_run ON bulk_run (run);

-- By what services and people call over HTTP. Of a token only its digest is here, so that whoever reads the ledger, or a
-- copy of it, can call with none.
CREATE TABLE api_token (
    no INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    -- Under whose name everything is done that is done with it.
    person TEXT NOT NULL CHECK (person <> ''),
    -- One that may do nothing is none.
    roles TEXT NOT NULL CHECK (roles LIKE '["%'),
    digest TEXT NOT NULL UNIQUE CHECK (length(digest) = 64),
    made_by TEXT NOT NULL,
    made_at INTEGER NOT NULL,
    expires_at INTEGER CHECK (expires_at > made_at),
    revoked_by TEXT,
    revoked_at INTEGER,
    -- Whoever revokes one is named.
    CHECK ((revoked_at IS NULL) = (revoked_by IS NULL))
) STRICT;

-- Who comes to the console with a password, as a hash that is slow to guess.
CREATE TABLE account (
    namespace TEXT NOT NULL,
    person TEXT NOT NULL CHECK (person <> ''),
    roles TEXT NOT NULL CHECK (roles LIKE '["%'),
    password TEXT NOT NULL CHECK (password LIKE '$argon2id$%'),
    changed_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, person)
) STRICT, WITHOUT ROWID;

-- Links by which somebody comes in once. Of a link only its digest is here.
CREATE TABLE invitation (
    digest TEXT PRIMARY KEY CHECK (length(digest) = 64),
    namespace TEXT NOT NULL,
    person TEXT NOT NULL CHECK (person <> ''),
    roles TEXT NOT NULL CHECK (roles LIKE '["%'),
    made_by TEXT NOT NULL,
    made_at INTEGER NOT NULL,
    -- One that never ends could lie about for ever.
    expires_at INTEGER NOT NULL CHECK (expires_at > made_at),
    used_at INTEGER CHECK (used_at >= made_at)
) STRICT, WITHOUT ROWID;

-- Who has come in. Of what their browser sends only the digest is here, so that whoever reads the ledger, or a copy of
-- it, is nobody.
CREATE TABLE session (
    digest TEXT PRIMARY KEY CHECK (length(digest) = 64),
    namespace TEXT NOT NULL,
    person TEXT NOT NULL CHECK (person <> ''),
    roles TEXT NOT NULL CHECK (roles LIKE '["%'),
    began_at INTEGER NOT NULL,
    seen_at INTEGER NOT NULL CHECK (seen_at >= began_at),
    ended_at INTEGER
) STRICT, WITHOUT ROWID;

-- Whoever is shut out is shut out of each of their sessions.
CREATE INDEX session_of_person ON session (namespace, person) WHERE ended_at IS NULL;
