-- How far the messages of each source that is read, such as a bot, were taken.
CREATE TABLE inbound_sources (
  source    TEXT NOT NULL PRIMARY KEY,
  position  TEXT,                 -- in the channel's own words; NULL before the first message
  moved_at  BIGINT,
  worker_id BIGINT NOT NULL       -- who reads it
);
