-- The message that waits behind a send of the same words by a tool: it is cancelled once those are
-- shown, or nobody can say, and sent where they were not.
ALTER TABLE outbox ADD COLUMN behind INTEGER;

CREATE INDEX idx_outbox_behind ON outbox (behind) WHERE behind IS NOT NULL;
