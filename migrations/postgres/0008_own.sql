-- Who runs a turn: NULL for the worker's own agent, else the token under which a program waits for
-- the lane. A program that is gone waits for nothing, and its turn is never answered by an agent.
ALTER TABLE turns ADD COLUMN runner TEXT;

-- What a program has sent under a key of its own is found by that key, and forgotten by its age.
CREATE INDEX idx_outbox_own ON outbox (producer) WHERE run_id IS NULL AND turn_id IS NULL;
CREATE INDEX idx_outbox_own_enqueued ON outbox (enqueued_at) WHERE run_id IS NULL AND turn_id IS NULL;
