-- When a turn said that it was about to have effects; NULL where it has said nothing. One that had
-- some is not tried again when its process has died.
ALTER TABLE turns ADD COLUMN effects_at BIGINT;
