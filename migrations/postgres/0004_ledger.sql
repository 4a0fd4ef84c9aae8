-- What `chatcron audit` needs to prove a ledger over edits: which definition planned which slots.
-- The slots after `after_at`, up to and including `until_at`, are those of this definition; while
-- it is in force, up to the job's cursor.
CREATE TABLE plan_stretches (
  job_id        TEXT COLLATE "C" NOT NULL,
  incarnation   BIGINT NOT NULL,
  after_at      BIGINT NOT NULL,
  until_at      BIGINT,            -- NULL while the definition is in force
  digest        TEXT NOT NULL REFERENCES definitions (digest),
  first_seen_at BIGINT NOT NULL,   -- the default anchor
  zone          TEXT NOT NULL,
  zone_data     TEXT,              -- fingerprint of the zone's clock changes; NULL where not known
  begun_at      BIGINT NOT NULL,
  PRIMARY KEY (job_id, incarnation, after_at)
);

CREATE INDEX idx_plan_stretches_open ON plan_stretches (zone, zone_data) WHERE until_at IS NULL;
