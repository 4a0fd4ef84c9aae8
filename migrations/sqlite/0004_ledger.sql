-- What `chatcron audit` needs to prove a ledger over edits: which definition planned which slots.
-- The slots after `after_at`, up to and including `until_at`, are those of this definition; while
-- it is in force, up to the job's cursor.
CREATE TABLE plan_stretches (
  job_id        TEXT NOT NULL,
  incarnation   INTEGER NOT NULL,
  after_at      INTEGER NOT NULL,
  until_at      INTEGER,           -- NULL while the definition is in force
  digest        TEXT NOT NULL REFERENCES definitions (digest),
  first_seen_at INTEGER NOT NULL,  -- the default anchor
  zone          TEXT NOT NULL,
  zone_data     TEXT,              -- fingerprint of the zone's clock changes; NULL where not known
  begun_at      INTEGER NOT NULL,
  PRIMARY KEY (job_id, incarnation, after_at)
) STRICT, WITHOUT ROWID;

CREATE INDEX idx_plan_stretches_open ON plan_stretches (zone, zone_data) WHERE until_at IS NULL;

-- Of a database that is older than this table, what was accounted for before cannot be proved: the
-- first stretch of each job begins at its cursor.
INSERT INTO plan_stretches (job_id, incarnation, after_at, digest, first_seen_at, zone, begun_at)
SELECT j.job_id, j.incarnation,
  unixepoch(j.state ->> 'cursor') * 1000000
    + iif(instr(j.state ->> 'cursor', '.') > 0,
        CAST(substr(rtrim(j.state ->> 'cursor', 'Z') || '000000',
          instr(j.state ->> 'cursor', '.') + 1, 6) AS INTEGER), 0),
  j.digest, j.first_seen_at, d.definition ->> '$.schedule.zone',
  unixepoch() * 1000000
FROM jobs AS j JOIN definitions AS d ON d.digest = j.digest
WHERE j.removed_at IS NULL;
