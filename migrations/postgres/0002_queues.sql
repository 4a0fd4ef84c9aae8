-- What goes next, in its order: a deep queue is read from its front, and not as a whole.

CREATE INDEX idx_runs_next ON runs ((cause = 'catch-up'), due_at, job_id) WHERE state = 'queued';
CREATE INDEX idx_outbox_parts_next ON outbox_parts (message_id, part) WHERE state IN ('pending', 'sending');
