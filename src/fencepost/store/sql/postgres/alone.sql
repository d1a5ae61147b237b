-- The two moves of a step that is alone in its commit: nobody shares its round trip, so that what an array a column takes
-- to plan and to read would be a fifth of it. They say the same as their namesakes in `moves.sql`.

-- name: new_operation_alone
-- Insert one operation, reserved or at once dispatched: then with its first attempt, not toward what is contained.
WITH changed AS (
    INSERT INTO fencepost.operation (
        run, step, item, effect, contract_version, key, key_scheme, scope, request, fingerprint, policy, compensates,
        state, attempts, generation, error, not_before, budget_from, reserved_at, changed_at, first_token, first_lease,
        first_generation, first_dispatched_at, first_send_by, first_span_ends_at, first_outcome, approval
    )
    SELECT
        :run::bigint, :step, :item, :effect, :contract_version, :key, :key_scheme, :scope, :request, :fingerprint,
        :policy, :compensates, :state, :attempts::bigint, :generation::bigint, :error, :not_before, :at::bigint,
        :at::bigint, :at::bigint, :token, :lease, :generation::bigint, :dispatched_at, :send_by, :span_ends_at,
        CASE WHEN :attempts::bigint > 0 THEN 'unresolved' END, :approval
    WHERE (SELECT generation FROM fencepost.run WHERE no = :run::bigint AND state = :run_state) = :generation::bigint
    AND NOT EXISTS (
        SELECT 1 FROM fencepost.containment WHERE strpos(:toward, mark) > 0 AND probe_run IS DISTINCT FROM :run::bigint
    )
    AND CASE
        WHEN strpos(:toward, chr(10) || 'below' || chr(10)) > 0 THEN NOT fencepost.unknown_below(:run::bigint) ELSE true
    END
    RETURNING 1
)
SELECT fencepost.all_of(count(*), 1) FROM changed;

-- name: succeed_alone
-- The first and only attempt was applied, so the operation has succeeded.
WITH changed AS (
    UPDATE fencepost.operation SET
        state = 'succeeded',
        first_outcome = 'applied',
        first_evidence = :evidence,
        first_sends = coalesce(:sends, first_sends),
        first_settled_at = :at::bigint,
        result = :result,
        error = NULL,
        reference = coalesce(:reference, reference),
        delivered = coalesce(:delivered::bigint, delivered),
        delivered_at = CASE WHEN :delivered::bigint IS NULL THEN delivered_at ELSE :at::bigint END,
        not_before = NULL,
        generation = :generation::bigint,
        version = version + 1,
        changed_at = :at::bigint
    WHERE run = :run::bigint AND step = :step AND item = :item
    AND state = 'dispatched' AND attempts = 1 AND first_outcome = 'unresolved'
    AND (SELECT generation FROM fencepost.run WHERE no = :run::bigint) = :generation::bigint
    RETURNING 1
)
SELECT fencepost.all_of(count(*), 1) FROM changed;
