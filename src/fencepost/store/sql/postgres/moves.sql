-- The journal's moves, each for many rows at once: an array a column. Each names the state it expects and the generation
-- it acts under in its own statement, under the lock of `lock_runs`; one row less than was given ends the transaction.

-- name: new_operation
-- Insert operations, reserved or at once dispatched: then with their first attempts, not toward what is contained, and
-- where their runs mind their children, not while something is unknown below them.
WITH changed AS (
    INSERT INTO fencepost.operation (
        run, step, item, effect, contract_version, key, key_scheme, scope, request, fingerprint, policy, compensates,
        state, attempts, generation, error, not_before, budget_from, reserved_at, changed_at, first_token, first_lease,
        first_generation, first_dispatched_at, first_send_by, first_span_ends_at, first_outcome, approval
    )
    SELECT
        run, step, item, effect, contract_version, key, key_scheme, scope, request, fingerprint, policy, compensates,
        state, attempts, generation, error, not_before, at, at, at, token, lease,
        generation, dispatched_at, send_by, span_ends_at, CASE WHEN attempts > 0 THEN 'unresolved' END, approval
    FROM unnest(
        :run::bigint[], :generation::bigint[], :run_state::text[], :step::text[], :item::text[], :effect::text[],
        :contract_version::bigint[], :key::text[], :key_scheme::bigint[], :scope::text[], :request::text[],
        :fingerprint::text[], :policy::text[], :compensates::text[], :state::text[], :attempts::bigint[],
        :error::text[], :not_before::bigint[], :at::bigint[], :token::bigint[], :lease::text[],
        :dispatched_at::bigint[], :send_by::bigint[], :span_ends_at::bigint[], :approval::text[], :toward::text[]
    ) WITH ORDINALITY AS move (
        run, generation, run_state, step, item, effect,
        contract_version, key, key_scheme, scope, request,
        fingerprint, policy, compensates, state, attempts,
        error, not_before, at, token, lease,
        dispatched_at, send_by, span_ends_at, approval, toward, place
    )
    WHERE (SELECT generation FROM fencepost.run WHERE no = move.run AND state = move.run_state) = move.generation
    AND NOT EXISTS (
        SELECT 1 FROM fencepost.containment
        WHERE strpos(move.toward, containment.mark) > 0 AND containment.probe_run IS DISTINCT FROM move.run
    )
    AND CASE
        WHEN strpos(move.toward, chr(10) || 'below' || chr(10)) > 0 THEN NOT fencepost.unknown_below(move.run) ELSE true
    END
    ORDER BY place
    RETURNING 1
)
SELECT fencepost.all_of(count(*), cardinality(:run)) FROM changed;

-- name: new_attempt
-- Insert later attempts of operations that are dispatched with these attempts' numbers.
WITH changed AS (
    INSERT INTO fencepost.attempt (
        run, step, item, number, token, lease, generation, dispatched_at, send_by, span_ends_at
    )
    SELECT run, step, item, number, token, lease, generation, dispatched_at, send_by, span_ends_at
    FROM unnest(
        :run::bigint[], :generation::bigint[], :step::text[], :item::text[], :number::bigint[], :token::bigint[],
        :lease::text[], :dispatched_at::bigint[], :send_by::bigint[], :span_ends_at::bigint[]
    ) AS move (
        run, generation, step, item, number, token,
        lease, dispatched_at, send_by, span_ends_at
    )
    WHERE (
        SELECT attempts FROM fencepost.operation
        WHERE run = move.run AND step = move.step AND item = move.item AND state = 'dispatched'
    ) = move.number
    AND (SELECT generation FROM fencepost.run WHERE no = move.run) = move.generation
    RETURNING 1
)
SELECT fencepost.all_of(count(*), cardinality(:run)) FROM changed;

-- name: succeed
-- The first and only attempts were applied, so the operations have succeeded: the usual end, in one change of a row.
WITH changed AS (
    UPDATE fencepost.operation SET
        state = 'succeeded',
        first_outcome = 'applied',
        first_evidence = move.evidence,
        first_sends = coalesce(move.sends, first_sends),
        first_settled_at = move.at,
        result = move.result,
        error = NULL,
        reference = coalesce(move.reference, operation.reference),
        delivered = coalesce(move.delivered, operation.delivered),
        delivered_at = CASE WHEN move.delivered IS NULL THEN delivered_at ELSE move.at END,
        not_before = NULL,
        generation = move.generation,
        version = version + 1,
        changed_at = move.at
    FROM unnest(
        :run::bigint[], :generation::bigint[], :step::text[], :item::text[], :evidence::text[], :sends::bigint[],
        :result::text[], :reference::text[], :delivered::bigint[], :at::bigint[]
    ) AS move (
        run, generation, step, item, evidence, sends,
        result, reference, delivered, at
    )
    WHERE operation.run = move.run AND operation.step = move.step AND operation.item = move.item
    AND state = 'dispatched' AND attempts = 1 AND first_outcome = 'unresolved'
    AND (SELECT generation FROM fencepost.run WHERE no = move.run) = move.generation
    RETURNING 1
)
SELECT fencepost.all_of(count(*), cardinality(:run)) FROM changed;

-- name: move_operation
-- Lead operations from one state to the next; what is not given stays. A retry starts a new budget. A conflict that late
-- evidence raised meanwhile is not lowered by an owner who has not heard of it, but by a person alone.
WITH changed AS (
    UPDATE fencepost.operation SET
        state = move.target,
        result = coalesce(move.result, operation.result),
        error = CASE WHEN move.target = 'succeeded' THEN NULL ELSE coalesce(move.error, operation.error) END,
        reference = coalesce(move.reference, operation.reference),
        delivered = coalesce(move.delivered, operation.delivered),
        delivered_at = CASE WHEN move.delivered IS NULL THEN delivered_at ELSE move.at END,
        not_before = move.not_before,
        conflict = CASE WHEN move.event = 'settle conflict' THEN 0 ELSE greatest(operation.conflict, move.conflict) END,
        lookups = greatest(operation.lookups, move.lookups),
        budget_from = CASE WHEN move.event = 'retry' THEN move.at ELSE budget_from END,
        generation = move.generation,
        version = version + 1,
        changed_at = move.at
    FROM unnest(
        :run::bigint[], :generation::bigint[], :step::text[], :item::text[], :expected::text[], :event::text[],
        :to::text[], :result::text[], :error::text[], :reference::text[], :delivered::bigint[], :not_before::bigint[],
        :conflict::bigint[], :lookups::bigint[], :at::bigint[]
    ) AS move (
        run, generation, step, item, expected, event,
        target, result, error, reference, delivered, not_before,
        conflict, lookups, at
    )
    WHERE operation.run = move.run AND operation.step = move.step AND operation.item = move.item
    AND state = move.expected
    AND (SELECT generation FROM fencepost.run WHERE no = move.run) = move.generation
    RETURNING 1
)
SELECT fencepost.all_of(count(*), cardinality(:run)) FROM changed;

-- name: dispatch_operation
-- Lead operations from reserved or unknown to dispatched, under the next attempt number; the first one in this row.
-- Not toward what is contained, nor anew while something is unknown below a run that minds its children.
WITH changed AS (
    UPDATE fencepost.operation SET
        state = 'dispatched',
        attempts = move.number,
        first_token = CASE WHEN move.number = 1 THEN move.token ELSE first_token END,
        first_lease = CASE WHEN move.number = 1 THEN move.lease ELSE first_lease END,
        first_generation = CASE WHEN move.number = 1 THEN move.generation ELSE first_generation END,
        first_dispatched_at = CASE WHEN move.number = 1 THEN move.at ELSE first_dispatched_at END,
        first_send_by = CASE WHEN move.number = 1 THEN move.send_by ELSE first_send_by END,
        first_span_ends_at = CASE WHEN move.number = 1 THEN move.span_ends_at ELSE first_span_ends_at END,
        first_outcome = CASE WHEN move.number = 1 THEN 'unresolved' ELSE first_outcome END,
        approval = coalesce(move.approval, operation.approval),
        not_before = NULL,
        generation = move.generation,
        version = version + 1,
        changed_at = move.at
    FROM unnest(
        :run::bigint[], :generation::bigint[], :run_state::text[], :step::text[], :item::text[], :expected::text[],
        :number::bigint[], :at::bigint[], :token::bigint[], :lease::text[], :send_by::bigint[],
        :span_ends_at::bigint[], :approval::text[], :toward::text[]
    ) AS move (
        run, generation, run_state, step, item, expected,
        number, at, token, lease, send_by,
        span_ends_at, approval, toward
    )
    WHERE operation.run = move.run AND operation.step = move.step AND operation.item = move.item
    AND state = move.expected AND attempts = move.number - 1
    AND (SELECT generation FROM fencepost.run WHERE no = move.run AND state = move.run_state) = move.generation
    AND NOT EXISTS (
        SELECT 1 FROM fencepost.containment
        WHERE strpos(move.toward, containment.mark) > 0 AND containment.probe_run IS DISTINCT FROM move.run
    )
    AND CASE
        WHEN strpos(move.toward, chr(10) || 'below' || chr(10)) > 0 AND move.expected = 'reserved' THEN NOT fencepost.unknown_below(move.run) ELSE true
    END
    RETURNING 1
)
SELECT fencepost.all_of(count(*), cardinality(:run)) FROM changed;

-- name: settle_first
-- Record what is proved of first attempts, with its evidence.
WITH changed AS (
    UPDATE fencepost.operation SET
        first_outcome = move.target,
        first_evidence = move.evidence,
        first_sends = coalesce(move.sends, first_sends),
        first_settled_at = CASE WHEN move.target = 'unresolved' THEN NULL ELSE move.at END
    FROM unnest(
        :run::bigint[], :generation::bigint[], :step::text[], :item::text[], :expected::text[], :to::text[],
        :evidence::text[], :sends::bigint[], :at::bigint[]
    ) AS move (
        run, generation, step, item, expected, target,
        evidence, sends, at
    )
    WHERE operation.run = move.run AND operation.step = move.step AND operation.item = move.item
    AND first_outcome = move.expected
    AND (SELECT generation FROM fencepost.run WHERE no = move.run) = move.generation
    RETURNING 1
)
SELECT fencepost.all_of(count(*), cardinality(:run)) FROM changed;

-- name: settle_attempt
-- Record what is proved of later attempts, with its evidence.
WITH changed AS (
    UPDATE fencepost.attempt SET
        outcome = move.target,
        evidence = move.evidence,
        sends = coalesce(move.sends, attempt.sends),
        settled_at = CASE WHEN move.target = 'unresolved' THEN NULL ELSE move.at END
    FROM unnest(
        :run::bigint[], :generation::bigint[], :step::text[], :item::text[], :number::bigint[], :expected::text[],
        :to::text[], :evidence::text[], :sends::bigint[], :at::bigint[]
    ) AS move (
        run, generation, step, item, number, expected,
        target, evidence, sends, at
    )
    WHERE attempt.run = move.run AND attempt.step = move.step AND attempt.item = move.item
    AND attempt.number = move.number AND outcome = move.expected
    AND (SELECT generation FROM fencepost.run WHERE no = move.run) = move.generation
    RETURNING 1
)
SELECT fencepost.all_of(count(*), cardinality(:run)) FROM changed;

-- name: deliver_operation
-- Give final operations their places in their runs' orders of deliveries.
WITH changed AS (
    UPDATE fencepost.operation SET delivered = move.delivered, delivered_at = move.at, version = version + 1
    FROM unnest(
        :run::bigint[], :generation::bigint[], :step::text[], :item::text[], :delivered::bigint[], :at::bigint[]
    ) AS move (
        run, generation, step, item, delivered, at
    )
    WHERE operation.run = move.run AND operation.step = move.step AND operation.item = move.item
    AND state IN ('succeeded', 'failed', 'cancelled')
    AND (SELECT generation FROM fencepost.run WHERE no = move.run) = move.generation
    RETURNING 1
)
SELECT fencepost.all_of(count(*), cardinality(:run)) FROM changed;

-- name: open_step
-- Insert positions that are not effects, open or at once closed.
WITH changed AS (
    INSERT INTO fencepost.step (
        run, position, kind, name, fingerprint, version, state, request, detail, result, error, delivered, due_at,
        opened_at, closed_at
    )
    SELECT
        run, position, kind, name, fingerprint, version, state, request, detail, result, error, delivered, due_at,
        at, closed_at
    FROM unnest(
        :run::bigint[], :generation::bigint[], :position::text[], :kind::text[], :name::text[], :fingerprint::text[],
        :version::bigint[], :state::text[], :request::text[], :detail::text[], :result::text[], :error::text[],
        :delivered::bigint[], :due_at::bigint[], :at::bigint[], :closed_at::bigint[]
    ) WITH ORDINALITY AS move (
        run, generation, position, kind, name, fingerprint,
        version, state, request, detail, result, error,
        delivered, due_at, at, closed_at, place
    )
    WHERE (SELECT generation FROM fencepost.run WHERE no = move.run) = move.generation
    ORDER BY place
    RETURNING 1
)
SELECT fencepost.all_of(count(*), cardinality(:run)) FROM changed;

-- name: move_step
-- Lead steps from one state to the next; what is not given stays.
WITH changed AS (
    UPDATE fencepost.step SET
        state = move.target,
        detail = coalesce(move.detail, step.detail),
        result = coalesce(move.result, step.result),
        error = CASE WHEN move.target = 'done' THEN NULL ELSE coalesce(move.error, step.error) END,
        delivered = coalesce(move.delivered, step.delivered),
        due_at = coalesce(move.due_at, step.due_at),
        closed_at = CASE WHEN move.target = 'open' THEN NULL ELSE coalesce(closed_at, move.at) END
    FROM unnest(
        :run::bigint[], :generation::bigint[], :position::text[], :expected::text[], :to::text[], :detail::text[],
        :result::text[], :error::text[], :delivered::bigint[], :due_at::bigint[], :at::bigint[]
    ) AS move (
        run, generation, position, expected, target, detail,
        result, error, delivered, due_at, at
    )
    WHERE step.run = move.run AND step.position = move.position AND state = move.expected
    AND (SELECT generation FROM fencepost.run WHERE no = move.run) = move.generation
    RETURNING 1
)
SELECT fencepost.all_of(count(*), cardinality(:run)) FROM changed;

-- name: move_signal
-- Lead kept signals to applied or refused.
WITH changed AS (
    UPDATE fencepost.signal SET
        state = move.target, reason = move.reason, position = move.position, closed_at = move.at
    FROM unnest(
        :run::bigint[], :generation::bigint[], :id::text[], :expected::text[], :to::text[], :reason::text[],
        :position::text[], :at::bigint[]
    ) AS move (
        run, generation, id, expected, target, reason,
        position, at
    )
    WHERE signal.run = move.run AND signal.id = move.id AND state = move.expected
    AND (SELECT generation FROM fencepost.run WHERE no = move.run) = move.generation
    RETURNING 1
)
SELECT fencepost.all_of(count(*), cardinality(:run)) FROM changed;

-- name: move_run
-- Lead runs from one state to the next. One that is given up while a kept signal waits for it wakes at once; not if it
-- pauses in a compensation, which a person may have started beside a wait that takes no signal any more.
WITH changed AS (
    UPDATE fencepost.run SET
        state = move.target,
        generation = run.generation + move.raise_generation,
        version = version + 1,
        lease = CASE WHEN move.keep_lease = 1 THEN lease END,
        woken = CASE WHEN move.keep_lease = 1 THEN run.woken ELSE 0 END,
        wake_at = CASE
            WHEN move.keep_lease = 0 AND run.woken = 1
            AND move.target IN ('waiting', 'cancelling', 'compensating') THEN move.at
            WHEN move.keep_lease = 0
            AND (
                move.target IN ('waiting', 'cancelling')
                OR (move.target = 'compensating' AND move.wake_at IS NULL)
            ) AND EXISTS (
                SELECT 1 FROM fencepost.signal JOIN fencepost.step
                    ON step.run = signal.run AND step.name = signal.name
                WHERE signal.run = move.run AND signal.state = 'kept' AND step.kind = 'wait' AND step.state = 'open'
            ) THEN move.at
            -- What it would wait behind was released meanwhile.
            WHEN (SELECT count(*) FROM fencepost.containment WHERE strpos(move.behind, mark) > 0)
                < length(move.behind) - length(replace(move.behind, chr(10), '')) - 1 THEN move.at
            WHEN move.target = 'ready' THEN coalesce(move.wake_at, move.at)
            ELSE move.wake_at
        END,
        behind = move.behind,
        gives_way = greatest(run.gives_way, (move.target IN ('cancelling', 'compensating'))::int),
        hold = move.hold,
        result = coalesce(move.result, run.result),
        error = CASE WHEN move.target = 'succeeded' THEN NULL ELSE coalesce(move.error, run.error) END,
        cancel = coalesce(move.cancel, run.cancel),
        delivered = move.delivered,
        takeovers = CASE WHEN move.raise_generation = 1 THEN 0 ELSE run.takeovers END,
        changed_at = move.at,
        ended_at = move.ended_at
    FROM unnest(
        :run::bigint[], :generation::bigint[], :expected::text[], :to::text[], :keep_lease::bigint[],
        :raise_generation::bigint[], :wake_at::bigint[], :hold::text[], :result::text[], :error::text[],
        :cancel::text[], :delivered::bigint[], :at::bigint[], :ended_at::bigint[], :behind::text[]
    ) AS move (
        run, generation, expected, target, keep_lease,
        raise_generation, wake_at, hold, result, error,
        cancel, delivered, at, ended_at, behind
    )
    WHERE run.no = move.run AND state = move.expected AND run.generation = move.generation
    RETURNING 1
)
SELECT fencepost.all_of(count(*), cardinality(:run)) FROM changed;

-- name: start_child
-- Insert runs that others have asked for, in their namespaces and for their principals; anybody may claim them.
WITH changed AS (
    INSERT INTO fencepost.run (
        namespace, id, workflow, workflow_version, principal, input, fingerprint, state, generation, version, wake_at,
        parent, parent_step, created_at, changed_at, queue
    )
    SELECT
        (SELECT namespace FROM fencepost.run WHERE no = move.run), id, workflow, workflow_version,
        (SELECT principal FROM fencepost.run WHERE no = move.run), input, fingerprint, 'ready',
        coalesce((SELECT max(number) * 1048576 FROM fencepost.epoch), 0), 0, at, run, parent_step, at, at, queue
    FROM unnest(
        :run::bigint[], :generation::bigint[], :id::text[], :workflow::text[], :workflow_version::bigint[],
        :input::text[], :fingerprint::text[], :parent_step::text[], :at::bigint[], :queue::text[]
    ) WITH ORDINALITY AS move (
        run, generation, id, workflow, workflow_version,
        input, fingerprint, parent_step, at, queue, place
    )
    WHERE (SELECT generation FROM fencepost.run WHERE no = move.run) = move.generation
    ORDER BY place
    RETURNING 1
)
SELECT fencepost.all_of(count(*), cardinality(:run)) FROM changed;

-- name: next_turn
-- Insert the next turns of runs that continue: their rows begin with nothing but the new input.
WITH changed AS (
    INSERT INTO fencepost.run (
        namespace, id, turn, workflow, workflow_version, principal, input, fingerprint, state, generation, version,
        lease, wake_at, parent, parent_step, created_at, changed_at, queue, queue_key, priority, dedup, began_at
    )
    SELECT run.namespace, run.id, run.turn + 1, run.workflow, run.workflow_version, run.principal, move.input,
        run.fingerprint, CASE WHEN move.lease IS NULL THEN 'ready' ELSE 'running' END, run.generation + 1,
        run.version + 1, move.lease, CASE WHEN move.lease IS NULL THEN move.at END, run.parent, run.parent_step,
        move.at, move.at, run.queue, run.queue_key, run.priority, run.dedup, run.began_at
    FROM unnest(
        :run::bigint[], :generation::bigint[], :input::text[], :lease::text[], :at::bigint[]
    ) AS move (run, generation, input, lease, at)
    JOIN fencepost.run ON run.no = move.run
    WHERE run.generation = move.generation AND state = 'continued'
    RETURNING 1
)
SELECT fencepost.all_of(count(*), cardinality(:run)) FROM changed;

-- name: pin_run
-- Pin runs to other versions of their workflows.
WITH changed AS (
    UPDATE fencepost.run SET workflow_version = move.pinned
    FROM unnest(
        :run::bigint[], :generation::bigint[], :expected::text[], :workflow_version::bigint[], :pinned::bigint[]
    ) AS move (run, generation, expected, workflow_version, pinned)
    WHERE run.no = move.run AND run.workflow_version = move.workflow_version
    AND state = move.expected AND run.generation = move.generation
    RETURNING 1
)
SELECT fencepost.all_of(count(*), cardinality(:run)) FROM changed;

-- name: observe
-- Append observations; they have no guard, since authority is fenced and evidence is not.
INSERT INTO fencepost.observation (
    run, step, item, attempt, kind, says, evidence, lease, generation, current, began_at, seen_at
)
SELECT run, step, item, attempt, kind, says, evidence, lease, generation, current, began_at, seen_at
FROM unnest(
    :run::bigint[], :step::text[], :item::text[], :attempt::bigint[], :kind::text[], :says::text[], :evidence::text[],
    :lease::text[], :generation::bigint[], :current::bigint[], :began_at::bigint[], :seen_at::bigint[]
) WITH ORDINALITY AS seen (
    run, step, item, attempt, kind, says, evidence,
    lease, generation, current, began_at, seen_at, place
)
ORDER BY place;

-- name: generation_of
-- The generation that owns a run now, to tell a stale group from an illegal one.
SELECT generation FROM fencepost.run WHERE no = :run;
