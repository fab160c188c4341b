-- Removes a record and returns its fields.
-- KEYS: the record.

local fields = redis.call('HGETALL', KEYS[1])
redis.call('UNLINK', KEYS[1])
return fields
