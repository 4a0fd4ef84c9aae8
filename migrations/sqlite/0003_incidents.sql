-- Incidents: stretches of failures of one job with one cause, and what was said of them.
CREATE TABLE incidents (
  incident_id INTEGER NOT NULL PRIMARY KEY,  -- the signal that opened it
  job_id      TEXT NOT NULL,
  incarnation INTEGER NOT NULL,
  cause       TEXT NOT NULL,                 -- 'delivery', or why the runs failed
  since       INTEGER NOT NULL,              -- the first failure
  failures    INTEGER NOT NULL,
  stage       TEXT NOT NULL CHECK (stage IN ('watched', 'silent', 'alerted')),
  alerted_at  INTEGER,
  told        TEXT,                          -- directory::Chat as JSON; NULL where nobody could be told
  producer    TEXT NOT NULL,                 -- of its messages in the outbox
  error       TEXT,                          -- of the last failure, in words
  over_at     INTEGER
) STRICT;

CREATE UNIQUE INDEX idx_incidents_open ON incidents (job_id, incarnation, cause) WHERE over_at IS NULL;
CREATE INDEX idx_incidents_alerted ON incidents (job_id, incarnation, cause, alerted_at) WHERE alerted_at IS NOT NULL;
CREATE INDEX idx_incidents_over ON incidents (over_at) WHERE over_at IS NOT NULL;

-- What was committed and nobody has decided on yet, as far as incidents go: in the transaction of
-- the outcome that it reports, so that none is lost and none is told before its outcome. Numbers
-- are never used twice.
CREATE TABLE incident_signals (
  signal_id   INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
  job_id      TEXT NOT NULL,
  incarnation INTEGER NOT NULL,
  kind        TEXT NOT NULL CHECK (kind IN ('failed', 'works', 'delivered')),
  cause       TEXT,     -- of a failure
  run_id      INTEGER,
  lane        TEXT,     -- of a delivery that failed
  error       TEXT,
  paused      TEXT,     -- why a policy paused the job with it
  reported_at INTEGER NOT NULL
) STRICT;

CREATE INDEX idx_incident_signals_job ON incident_signals (job_id);

-- The messages of incidents.
CREATE INDEX idx_outbox_incident ON outbox (producer) WHERE origin IN ('failure_alert', 'recovery');

-- A result that is shown long after its slot. NULL where there is no rule for it, or what the rule
-- says has been done: that is decided once, when the message is first sent.
ALTER TABLE outbox ADD COLUMN late TEXT CHECK (late IN ('label', 'withhold'));
ALTER TABLE outbox ADD COLUMN late_from INTEGER;  -- after this instant it is late
ALTER TABLE outbox ADD COLUMN late_label TEXT;    -- the line for which its first part has room
