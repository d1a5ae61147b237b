-- The journal's moves. Each names the state it expects and the generation it acts under in its own statement.
-- An insert's guard yields the run's number, or NULL, which the column refuses: a plain VALUES row needs no copy of
-- the pages it touches, as INSERT ... SELECT would.

-- name: new_operation
-- Insert an operation, reserved or at once dispatched: then with its first attempt, not toward what is contained, and
-- where its run minds its children, not while something is unknown below it.
INSERT INTO operation (
    run, step, item, effect, contract_version, key, key_scheme, scope, request, fingerprint, policy, compensates,
    state, attempts, generation, error, not_before, budget_from, reserved_at, changed_at, first_token, first_lease,
    first_generation, first_dispatched_at, first_send_by, first_span_ends_at, first_outcome, approval
) VALUES (
    (
        SELECT no FROM run WHERE no = :run AND generation = :generation AND state = :run_state AND NOT EXISTS (
            SELECT 1 FROM containment WHERE instr(:toward, mark) > 0 AND probe_run IS NOT :run
        )
        AND iif(instr(:toward, char(10) || 'below' || char(10)) > 0, NOT EXISTS (
            WITH RECURSIVE below (no) AS (
                SELECT no FROM run WHERE parent = :run AND parent_step IS NOT NULL
                UNION ALL
                SELECT run.no FROM below JOIN run ON run.parent = below.no AND run.parent_step IS NOT NULL
            )
            SELECT 1 FROM below JOIN operation ON operation.run = below.no WHERE operation.state = 'unknown'
        ), 1)
    ),
    :step, :item, :effect, :contract_version, :key, :key_scheme, :scope, :request, :fingerprint, :policy, :compensates,
    :state, :attempts, :generation, :error, :not_before, :at, :at, :at, :token, :lease,
    :generation, :dispatched_at, :send_by, :span_ends_at, iif(:attempts, 'unresolved', NULL), :approval
);

-- name: new_attempt
-- Insert a later attempt of an operation that is dispatched with this attempt's number.
INSERT INTO attempt (
    run, step, item, number, token, lease, generation, dispatched_at, send_by, span_ends_at
) VALUES (
    (
        SELECT run FROM operation
        WHERE run = :run AND step = :step AND item = :item AND state = 'dispatched' AND attempts = :number
        AND (SELECT generation FROM run WHERE no = :run) = :generation
    ),
    :step, :item, :number, :token, :lease, :generation, :dispatched_at, :send_by, :span_ends_at
);

-- name: succeed
-- The first and only attempt was applied, so the operation has succeeded: the usual end, in one change of its row.
UPDATE operation SET
    state = 'succeeded',
    first_outcome = 'applied',
    first_evidence = :evidence,
    first_sends = coalesce(:sends, first_sends),
    first_settled_at = :at,
    result = :result,
    error = NULL,
    reference = coalesce(:reference, reference),
    delivered = coalesce(:delivered, delivered),
    delivered_at = CASE WHEN :delivered IS NULL THEN delivered_at ELSE :at END,
    not_before = NULL,
    generation = :generation,
    version = version + 1,
    changed_at = :at
WHERE run = :run AND step = :step AND item = :item AND state = 'dispatched' AND attempts = 1
AND first_outcome = 'unresolved' AND (SELECT generation FROM run WHERE no = :run) = :generation;

-- name: move_operation
-- Lead an operation from one state to the next; what is not given stays. A retry starts a new budget. A conflict that
-- late evidence raised meanwhile is not lowered by an owner who has not heard of it, but by a person alone.
UPDATE operation SET
    state = :to,
    result = coalesce(:result, result),
    error = CASE WHEN :to = 'succeeded' THEN NULL ELSE coalesce(:error, error) END,
    reference = coalesce(:reference, reference),
    delivered = coalesce(:delivered, delivered),
    delivered_at = CASE WHEN :delivered IS NULL THEN delivered_at ELSE :at END,
    not_before = :not_before,
    conflict = CASE WHEN :event = 'settle conflict' THEN 0 ELSE max(conflict, :conflict) END,
    lookups = max(lookups, :lookups),
    budget_from = CASE WHEN :event = 'retry' THEN :at ELSE budget_from END,
    generation = :generation,
    version = version + 1,
    changed_at = :at
WHERE run = :run AND step = :step AND item = :item AND state = :expected
AND (SELECT generation FROM run WHERE no = :run) = :generation;

-- name: dispatch_operation
-- Lead an operation from reserved or unknown to dispatched, under the next attempt number; the first one in this row.
-- Not toward what is contained, nor anew while something is unknown below a run that minds its children.
UPDATE operation SET
    state = 'dispatched',
    attempts = :number,
    first_token = iif(:number = 1, :token, first_token),
    first_lease = iif(:number = 1, :lease, first_lease),
    first_generation = iif(:number = 1, :generation, first_generation),
    first_dispatched_at = iif(:number = 1, :at, first_dispatched_at),
    first_send_by = iif(:number = 1, :send_by, first_send_by),
    first_span_ends_at = iif(:number = 1, :span_ends_at, first_span_ends_at),
    first_outcome = iif(:number = 1, 'unresolved', first_outcome),
    approval = coalesce(:approval, approval),
    not_before = NULL,
    generation = :generation,
    version = version + 1,
    changed_at = :at
WHERE run = :run AND step = :step AND item = :item AND state = :expected AND attempts = :number - 1
AND (SELECT generation FROM run WHERE no = :run AND state = :run_state) = :generation
AND NOT EXISTS (SELECT 1 FROM containment WHERE instr(:toward, mark) > 0 AND probe_run IS NOT :run)
AND iif(instr(:toward, char(10) || 'below' || char(10)) > 0 AND :expected = 'reserved', NOT EXISTS (
    WITH RECURSIVE below (no) AS (
        SELECT no FROM run WHERE parent = :run AND parent_step IS NOT NULL
        UNION ALL
        SELECT run.no FROM below JOIN run ON run.parent = below.no AND run.parent_step IS NOT NULL
    )
    SELECT 1 FROM below JOIN operation ON operation.run = below.no WHERE operation.state = 'unknown'
), 1);

-- name: settle_first
-- Record what is proved of the first attempt, with its evidence.
UPDATE operation SET
    first_outcome = :to,
    first_evidence = :evidence,
    first_sends = coalesce(:sends, first_sends),
    first_settled_at = CASE WHEN :to = 'unresolved' THEN NULL ELSE :at END
WHERE run = :run AND step = :step AND item = :item AND first_outcome = :expected
AND (SELECT generation FROM run WHERE no = :run) = :generation;

-- name: settle_attempt
-- Record what is proved of a later attempt, with its evidence.
UPDATE attempt SET
    outcome = :to,
    evidence = :evidence,
    sends = coalesce(:sends, sends),
    settled_at = CASE WHEN :to = 'unresolved' THEN NULL ELSE :at END
WHERE run = :run AND step = :step AND item = :item AND number = :number AND outcome = :expected
AND (SELECT generation FROM run WHERE no = :run) = :generation;

-- name: deliver_operation
-- Give a final operation its place in the run's order of deliveries.
UPDATE operation SET delivered = :delivered, delivered_at = :at, version = version + 1
WHERE run = :run AND step = :step AND item = :item AND state IN ('succeeded', 'failed', 'cancelled')
AND (SELECT generation FROM run WHERE no = :run) = :generation;

-- name: open_step
-- Insert a position that is not an effect, open or at once closed.
INSERT INTO step (
    run, position, kind, name, fingerprint, version, state, request, detail, result, error, delivered, due_at,
    opened_at, closed_at
) VALUES (
    (SELECT no FROM run WHERE no = :run AND generation = :generation),
    :position, :kind, :name, :fingerprint, :version, :state, :request, :detail, :result, :error, :delivered, :due_at,
    :at, :closed_at
);

-- name: move_step
-- Lead a step from one state to the next; what is not given stays.
UPDATE step SET
    state = :to,
    detail = coalesce(:detail, detail),
    result = coalesce(:result, result),
    error = CASE WHEN :to = 'done' THEN NULL ELSE coalesce(:error, error) END,
    delivered = coalesce(:delivered, delivered),
    due_at = coalesce(:due_at, due_at),
    closed_at = CASE WHEN :to = 'open' THEN NULL ELSE coalesce(closed_at, :at) END
WHERE run = :run AND position = :position AND state = :expected
AND (SELECT generation FROM run WHERE no = :run) = :generation;

-- name: move_signal
-- Lead a kept signal to applied or refused.
UPDATE signal SET state = :to, reason = :reason, position = :position, closed_at = :at
WHERE run = :run AND id = :id AND state = :expected
AND (SELECT generation FROM run WHERE no = :run) = :generation;

-- name: move_run
-- Lead a run from one state to the next. Other hands than its owner's start the count of its takeovers anew. One that is given up while a kept signal waits for it wakes at once; not if
-- it pauses in a compensation, which a person may have started beside a wait that takes no signal any more.
UPDATE run SET
    state = :to,
    generation = generation + :raise_generation,
    version = version + 1,
    lease = CASE WHEN :keep_lease THEN lease END,
    woken = CASE WHEN :keep_lease THEN woken ELSE 0 END,
    wake_at = CASE
        WHEN NOT :keep_lease AND woken AND :to IN ('waiting', 'cancelling', 'compensating') THEN :at
        WHEN NOT :keep_lease
        AND (:to IN ('waiting', 'cancelling') OR (:to = 'compensating' AND :wake_at IS NULL)) AND EXISTS (
            SELECT 1 FROM signal JOIN step ON step.run = signal.run AND step.name = signal.name
            WHERE signal.run = :run AND signal.state = 'kept' AND step.kind = 'wait' AND step.state = 'open'
        ) THEN :at
        -- What it would wait behind was released meanwhile.
        WHEN (SELECT count(*) FROM containment WHERE instr(:behind, mark) > 0)
            < length(:behind) - length(replace(:behind, char(10), '')) - 1 THEN :at
        WHEN :to = 'ready' THEN coalesce(:wake_at, :at)
        ELSE :wake_at
    END,
    behind = :behind,
    gives_way = max(gives_way, :to IN ('cancelling', 'compensating')),
    hold = :hold,
    result = coalesce(:result, result),
    error = CASE WHEN :to = 'succeeded' THEN NULL ELSE coalesce(:error, error) END,
    cancel = coalesce(:cancel, cancel),
    delivered = :delivered,
    takeovers = CASE WHEN :raise_generation THEN 0 ELSE takeovers END,
    changed_at = :at,
    ended_at = :ended_at
WHERE no = :run AND state = :expected AND generation = :generation;

-- name: start_child
-- Insert a run that another one has asked for, in its namespace and for its principal; anybody may claim it.
INSERT INTO run (
    namespace, id, workflow, workflow_version, principal, input, fingerprint, state, generation, version, wake_at,
    parent, parent_step, created_at, changed_at, queue
) VALUES (
    (SELECT namespace FROM run WHERE no = :run AND generation = :generation),
    :id, :workflow, :workflow_version, (SELECT principal FROM run WHERE no = :run), :input, :fingerprint, 'ready',
    coalesce((SELECT max(number) * 1048576 FROM epoch), 0), 0, :at, :run, :parent_step, :at, :at, :queue
);

-- name: next_turn
-- Insert the next turn of a run that continues: its row begins with nothing but the new input.
INSERT INTO run (
    namespace, id, turn, workflow, workflow_version, principal, input, fingerprint, state, generation, version, lease,
    wake_at, parent, parent_step, created_at, changed_at, queue, queue_key, priority, dedup, began_at
)
SELECT namespace, id, turn + 1, workflow, workflow_version, principal, :input, fingerprint,
    iif(:lease IS NULL, 'ready', 'running'), generation + 1, version + 1, :lease, iif(:lease IS NULL, :at, NULL),
    parent, parent_step, :at, :at, queue, queue_key, priority, dedup, began_at
FROM run WHERE no = :run AND generation = :generation AND state = 'continued';

-- name: pin_run
-- Pin a run to another version of its workflow.
UPDATE run SET workflow_version = :pinned
WHERE no = :run AND workflow_version = :workflow_version AND state = :expected AND generation = :generation;

-- name: observe
-- Append an observation; it has no guard, since authority is fenced and evidence is not.
INSERT INTO observation (
    run, step, item, attempt, kind, says, evidence, lease, generation, current, began_at, seen_at
) VALUES (
    :run, :step, :item, :attempt, :kind, :says, :evidence, :lease, :generation, :current, :began_at, :seen_at
);

-- name: generation_of
-- The generation that owns a run now, to tell a stale group from an illegal one.
SELECT generation FROM run WHERE no = :run;
