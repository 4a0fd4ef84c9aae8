-- When an attempt said that it was about to have effects; NULL where it has said nothing. It is
-- written before the effect, so that an attempt without it can be repeated.
ALTER TABLE attempts ADD COLUMN effects_at BIGINT;
